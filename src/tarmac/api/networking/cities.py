"""Cities by their IATA code: their region and coordinates.

The table is a convenience, not a rule: any three capital letters are a city code. `tarmac up` takes a Location's region
and coordinates from here.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.networking.names import API_VERSION, LABEL_LOCATION, LABEL_ZONE, TOPOLOGY_CITY_CODE, TOPOLOGY_REGION
from tarmac.api.schema import JsonObject


class City(NamedTuple):
    """Region, degrees north, degrees east."""

    region: str
    latitude: float
    longitude: float


_TABLE = """
US ATL 33.64 -84.43  BOS 42.36 -71.01  CLT 35.21 -80.94  DEN 39.86 -104.67 DFW 32.90 -97.04  DTW 42.21 -83.35
US EWR 40.69 -74.17  HNL 21.32 -157.92 IAD 38.94 -77.46  IAH 29.98 -95.34  JFK 40.64 -73.78  LAS 36.08 -115.15
US LAX 33.94 -118.41 MCI 39.30 -94.71  MIA 25.79 -80.29  MSP 44.88 -93.22  ORD 41.98 -87.90  PDX 45.59 -122.60
US PHL 39.87 -75.24  PHX 33.43 -112.01 SAN 32.73 -117.19 SEA 47.45 -122.31 SFO 37.62 -122.38 SJC 37.36 -121.93
US SLC 40.79 -111.98 STL 38.75 -90.37
NA MEX 19.44 -99.07  QRO 20.62 -100.19 YUL 45.47 -73.74  YVR 49.19 -123.18 YYC 51.11 -114.02 YYZ 43.68 -79.63
EU AMS 52.31 4.76    ARN 59.65 17.92   ATH 37.94 23.94   BCN 41.30 2.08    BER 52.37 13.50   BRU 50.90 4.48
EU BUD 47.44 19.26   CDG 49.01 2.55    CPH 55.62 12.66   DUB 53.42 -6.27   DUS 51.29 6.77   FCO 41.80 12.25
EU FRA 50.03 8.57    GVA 46.24 6.11    HAM 53.63 9.99    HEL 60.32 24.96   KBP 50.35 30.89  LHR 51.47 -0.45
EU LIS 38.77 -9.13   MAD 40.47 -3.56   MAN 53.35 -2.27   MRS 43.44 5.22    MUC 48.35 11.79  MXP 45.63 8.73
EU OSL 60.19 11.10   OTP 44.57 26.08   PRG 50.10 14.26   RIX 56.92 23.97   SOF 42.70 23.41  VIE 48.11 16.57
EU WAW 52.17 20.97   ZAG 45.74 16.07   ZRH 47.46 8.55
AS BKK 13.69 100.75  BLR 13.20 77.71   BOM 19.09 72.87   CAN 23.39 113.30  CGK -6.13 106.66 DEL 28.57 77.10
AS HAN 21.22 105.81  HKG 22.31 113.92  HND 35.55 139.78  HYD 17.24 78.43   ICN 37.46 126.44 KIX 34.43 135.24
AS KUL 2.75 101.71   MAA 12.99 80.17   MNL 14.51 121.02  NRT 35.76 140.39  PEK 40.08 116.58 PVG 31.14 121.81
AS SGN 10.82 106.65  SIN 1.36 103.99   TPE 25.08 121.23
OC AKL -37.01 174.79 BNE -27.38 153.12 MEL -37.67 144.84 PER -31.94 115.97 SYD -33.95 151.18
SA BOG 4.70 -74.15   EZE -34.82 -58.54 FOR -3.78 -38.53  GIG -22.81 -43.25 GRU -23.44 -46.47 LIM -12.02 -77.11
SA SCL -33.39 -70.79
ME AMM 31.72 35.99   AUH 24.43 54.65   BAH 26.27 50.64   DOH 25.27 51.61   DXB 25.25 55.36  IST 41.28 28.75
ME JED 21.68 39.16   RUH 24.96 46.70   TLV 32.01 34.89
AF ACC 5.61 -0.17    CAI 30.12 31.41   CMN 33.37 -7.59   CPT -33.97 18.60  JNB -26.14 28.25 KGL -1.97 30.14
AF LOS 6.58 3.32     NBO -1.32 36.93
"""


def _read() -> dict[str, City]:
    cities: dict[str, City] = {}
    for line in _TABLE.split("\n"):
        words = line.split()
        for at in range(1, len(words), 3):
            cities[words[at]] = City(words[0], float(words[at + 1]), float(words[at + 2]))
    return cities


CITIES = _read()


def location_of(name: str, code: str, provider: str) -> JsonObject:
    """Return the Location of a place in this city, with region and coordinates if the city is in the table."""
    spec: JsonObject = {
        "locationClassName": "self-managed",
        "topology": {TOPOLOGY_CITY_CODE: code},
        "provider": {provider: {}},
    }
    if city := CITIES.get(code):
        spec["topology"][TOPOLOGY_REGION] = city.region
        spec["coordinates"] = {"latitude": f"{city.latitude:.2f}", "longitude": f"{city.longitude:.2f}"}
    return {"apiVersion": API_VERSION, "kind": "Location", "metadata": {"name": name}, "spec": spec}


def node_labels(location: str, code: str) -> dict[str, str]:
    """Return the topology labels of a node in a city."""
    return labels_at(location_of(location, code, ""))


def labels_at(location: JsonObject) -> dict[str, str]:
    """Return the topology labels of a node of a Location: Tarmac's, and Kubernetes' with the city as the zone."""
    name, topology = location["metadata"]["name"], (location.get("spec") or {}).get("topology") or {}
    labels = {LABEL_LOCATION: name, LABEL_ZONE: topology.get(TOPOLOGY_CITY_CODE, name).lower()}
    labels |= {key: topology[key] for key in (TOPOLOGY_CITY_CODE, TOPOLOGY_REGION) if key in topology}
    if region := topology.get(TOPOLOGY_REGION):
        labels["topology.kubernetes.io/region"] = region
    return labels
