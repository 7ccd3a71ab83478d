/* A library that answers NVML's calls from files in STATE, which a test writes.
 * STATE/<uuid>: alive mig utilization memory_used memory_total milliwatts celsius recovery_action (-1: unknown field)
 * Files that nvmlInit looks for in STATE: broken (it fails), hang (it writes its process
 * to hanging and never returns), crash (it ends the process), chatty (it prints to standard output), heavy (it
 * keeps 16 MiB, as NVIDIA's does). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct { char uuid[96]; } gpu_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned gpu, memory; } utilization_t;
typedef struct { unsigned id, scope; long long timestamp, latency; unsigned type; int result; unsigned long long value; } field_t;
typedef struct { int alive, mig, utilization; unsigned long long used, total; int milliwatts, celsius, action; } state_t;

static gpu_t gpus[16];
static int count;
static char kept[16 << 20];

static int state_of(void *device, state_t *state) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", STATE, ((gpu_t *)device)->uuid);
    FILE *file = fopen(path, "r");
    if (!file) return 6;
    int read = fscanf(file, "%d %d %d %llu %llu %d %d %d", &state->alive, &state->mig, &state->utilization, &state->used,
                      &state->total, &state->milliwatts, &state->celsius, &state->action);
    fclose(file);
    if (read != 8) return 999;
    return state->alive ? 0 : 15;
}

int nvmlInit_v2(void) {
    if (!access(STATE "/chatty", F_OK)) { printf("{\"gpus\": {}} warning: a library that talks\n"); fflush(stdout); }
    if (!access(STATE "/crash", F_OK)) abort();
    if (!access(STATE "/hang", F_OK)) {
        signal(SIGTERM, SIG_IGN);
        FILE *file = fopen(STATE "/hanging", "w"); fprintf(file, "%d\n", (int)getpid()); fclose(file);
        for (;;) pause();
    }
    if (!access(STATE "/heavy", F_OK)) memset(kept, 1, sizeof kept);
    return access(STATE "/broken", F_OK) ? 0 : 9;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", STATE, uuid);
    FILE *file = fopen(path, "r");
    if (!file) return 6;
    fclose(file);
    for (int i = 0; i < count; i++) if (!strcmp(gpus[i].uuid, uuid)) { *device = &gpus[i]; return 0; }
    snprintf(gpus[count].uuid, sizeof gpus[count].uuid, "%s", uuid);
    *device = &gpus[count++];
    return 0;
}

#define STATE_OF(device) state_t state; int code = state_of(device, &state); if (code) return code
int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    STATE_OF(device); memory->total = state.total; memory->used = state.used; memory->free = state.total - state.used;
    return 0;
}
int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {
    STATE_OF(device); rates->gpu = state.utilization; rates->memory = 0; return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *power) { STATE_OF(device); *power = state.milliwatts; return 0; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *heat) { STATE_OF(device); *heat = state.celsius; return 0; }
int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *later) {
    STATE_OF(device); *now = *later = state.mig; return 0;
}
int nvmlDeviceGetFieldValues(void *device, int number, field_t *fields) {
    STATE_OF(device);
    fields[0].result = fields[0].id == 230 && state.action >= 0 ? 0 : 3;
    fields[0].value = state.action;
    return 0;
}
