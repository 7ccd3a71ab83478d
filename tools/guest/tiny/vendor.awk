# Makes lines out of what the vendor-data says, with tabs between the fields:
#   link SERIAL PATH · user NAME · key TEXT · mount DEVICE PATH TYPE OPTIONS
BEGIN { OFS = "\t" }

/^KERNEL=="vd\*\[!0-9\]"/ { split($0, part, "\""); print "link", part[6], part[8] }

/^users: / {
    begin(substr($0, 8))
    while (next_token()) {
        if (kind == "word" && value == "name:") { next_token(); print "user", value }
        if (kind == "word" && value == "ssh_authorized_keys:") keys()
    }
}

/^mounts: / {
    begin(substr($0, 9))
    depth = 0
    while (next_token()) {
        if (kind == "[") { depth++; fields = 0 }
        else if (kind == "]") { if (depth-- == 2 && fields == 4) print "mount", field[1], field[2], field[3], field[4] }
        else field[++fields] = value
    }
}

function keys() {
    while (next_token() && kind != "]") if (kind == "text") print "key", value
}

function begin(line) { text = line; at = 1; size = length(line) }

# The next sign, word or quoted text, in `kind` and `value`; whether there is one.
function next_token(    sign) {
    while (at <= size && index(" ,", substr(text, at, 1))) at++
    if (at > size) return 0
    sign = substr(text, at, 1)
    if (index("[]{}", sign)) { at++; kind = sign; value = ""; return 1 }
    if (sign == "\"") { at++; kind = "text"; value = quoted(); return 1 }
    kind = "word"
    value = ""
    while (at <= size && !index(" ,[]{}", sign = substr(text, at, 1))) { value = value sign; at++ }
    return 1
}

function quoted(    sign, found) {
    found = ""
    while (at <= size && (sign = substr(text, at++, 1)) != "\"") {
        if (sign == "\\") {
            sign = substr(text, at++, 1)
            if (sign == "x") { at += 2; sign = "?" }
            else if (sign == "u") { at += 4; sign = "?" }
            else if (sign == "U") { at += 8; sign = "?" }
        }
        found = found sign
    }
    return found
}
