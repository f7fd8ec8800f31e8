#!/usr/bin/env bash
# Descriptions of real fabrics, each through everything that ibemu does with one: read and written again,
# routed by every engine, verified, compared, brought up over UDP and over veth (root), pinged, and held
# against what stock ibnetdiscover (infiniband-diags, ibsim-utils) shows of the live fabric.
#
# usage: tests/clusters.sh [--offline] [--shrink HOSTS] [--engines ENGINE,..] [--] FILE...
#
# Prints Markdown: a row a file, and below the table what went wrong. Exit code 1 if anything did. A file with
# more than --shrink hosts (400 unless given) comes up as a smaller fabric of the same shape.
# IBEMU names the program [default: target/release/ibemu].
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 2

ibemu=${IBEMU:-target/release/ibemu}
engines=auto,ftree,updn,minhop,dfsssp,nue,lash,dor,torus-2qos,mlid,slid
shrink=400
live=yes
while (($#)); do
    case $1 in
        --offline) live=no ;;
        --shrink) shrink=$2 && shift ;;
        --engines) engines=$2 && shift ;;
        --) shift && break ;;
        -*) sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2 && exit 2 ;;
        *) break ;;
    esac
    shift
done
(($#)) || { sed -n '2,/^set/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2; }

work=$(mktemp -d)
fabric=clu$$
trap '"$ibemu" down --fabric "$fabric" >/dev/null 2>&1; rm -rf "$work"' EXIT
problems=()
wrong() { problems+=("$name: $1"); }

# What a description says, in one order, whatever its format; what no cable leads to is left out, since a subnet
# manager does not find it.
canonical() {
    # shellcheck disable=SC2016 # a program in Python
    "$ibemu" topo "$1" --format json 2>/dev/null | python3 -c '
import json, sys
said = json.load(sys.stdin)
nodes = said["nodes"]
cabled = {end["node"] for link in said["links"] for end in link["ends"]}
def shown(number):
    node = dict(nodes[number])
    # The name tells nodes of one description apart.
    node.pop("name")
    return json.dumps(node, sort_keys=True)
lines = [shown(number) for number in cabled]
for link in said["links"]:
    ends = sorted((nodes[end["node"]]["guid"], end["port"]) for end in link["ends"])
    # A link of which nothing is said has the rate of `ibemu up` without options.
    rest = {"rate": "4xQDR"} | {key: value for key, value in link.items() if key != "ends"}
    lines.append(json.dumps([ends, rest], sort_keys=True))
print("\n".join(sorted(lines)))'
}

seconds() { awk "BEGIN { printf \"%.1f\", $2 - $1 }"; }
now() { date +%s.%N; }

# Brings the fabric up over $1, pings, and holds it against the file. Prints the cell of the table.
lives() {
    local transport=$1 begin=$EPOCHREALTIME said host differs cell
    if ! said=$("$ibemu" up "$file" "${part[@]}" --fabric "$fabric" --transport "$transport" --verify sample 2>&1); then
        wrong "up over $transport: ${said##*$'\n'}"
        printf 'fails'
        return
    fi
    cell="$(seconds "$begin" "$EPOCHREALTIME") s"
    host=$("$ibemu" status --fabric "$fabric" --json | python3 -c '
import json, sys
print(json.load(sys.stdin)["sm"]["node"])')
    if ! "$ibemu" exec --fabric "$fabric" "$host" ibnetdiscover >"$work/live" 2>"$work/errors"; then
        wrong "ibnetdiscover over $transport: $(tail -1 "$work/errors")"
    fi
    "$ibemu" topo "$file" "${part[@]}" --format ibnetdiscover >"$work/asked" 2>/dev/null
    canonical "$work/asked" >"$work/asked.lines"
    canonical "$work/live" >"$work/live.lines"
    differs=$(diff "$work/asked.lines" "$work/live.lines" | grep -c '^[<>]')
    if ((differs > 0)); then
        wrong "ibnetdiscover over $transport differs in $differs lines: $(diff "$work/asked.lines" "$work/live.lines" | grep '^[<>]' | head -2 | tr '\n' ' ')"
    fi
    "$ibemu" down --fabric "$fabric" >/dev/null 2>&1 || wrong "down over $transport fails"
    printf '%s, %s' "$cell" "$( ((differs)) && echo "$differs lines differ" || echo 'the same')"
}

echo '| description | switches / hosts / cables | engines that apply | auto takes | compare, s | up over UDP | up over veth |'
echo '|---|---|---|---|---|---|---|'
for given in "$@"; do
    file=$(realpath "$given")
    name=$(basename "$given")
    if ! "$ibemu" topo "$file" --format json >"$work/json" 2>"$work/errors"; then
        wrong "cannot be read: $(tail -1 "$work/errors")"
        echo "| $name | - | - | - | - | - | - |"
        continue
    fi
    read -r switches hosts cables < <(python3 -c '
import json, sys
said = json.load(open(sys.argv[1]))
kinds = [node["kind"] for node in said["nodes"]]
print(kinds.count("switch"), kinds.count("host"), len(said["links"]))' "$work/json")

    canonical "$file" >"$work/file.lines"
    for format in ibnetdiscover ibsim json; do
        "$ibemu" topo "$file" --format "$format" >"$work/again" 2>/dev/null || wrong "cannot be written as $format"
        [[ $format == ibsim ]] && continue # it has no identities
        canonical "$work/again" | cmp -s - "$work/file.lines" || wrong "comes back otherwise from $format"
    done

    apply=()
    for engine in ${engines//,/ }; do
        # What does not apply says so with exit code 2.
        "$ibemu" route "$file" --routing "$engine" >"$work/route" 2>"$work/errors"
        case $? in
            0) ;;
            2) continue ;;
            *) wrong "route --routing $engine: $(tail -1 "$work/errors")" && continue ;;
        esac
        apply+=("$engine")
        if ! "$ibemu" verify "$file" --routing "$engine" --no-quality >"$work/verify" 2>&1; then
            if [[ $engine == minhop ]] && ! grep -q 'does not reach' "$work/verify"; then
                apply[-1]+=" (credit loops)"
            else
                wrong "verify --routing $engine: $(head -3 "$work/verify" | tr '\n' ' ')"
            fi
        fi
    done
    taken=$("$ibemu" route "$file" 2>/dev/null | sed -n 's/.*, routing \([a-z0-9-]*\).*/\1/p' | head -1)

    begin=$EPOCHREALTIME
    "$ibemu" compare "$file" >"$work/compare" 2>"$work/errors" || wrong "compare: $(tail -1 "$work/errors")"
    compared=$(seconds "$begin" "$EPOCHREALTIME")

    udp=- veth=-
    if [[ $live == yes ]]; then
        part=()
        ((hosts > shrink)) && part=(--shrink "$shrink")
        lives udp >"$work/cell" && udp=$(<"$work/cell")
        if ((EUID == 0)); then
            lives veth >"$work/cell" && veth=$(<"$work/cell")
        fi
    fi
    listed=$(printf ', %s' "${apply[@]}")
    echo "| $name | $switches / $hosts / $cables | ${listed:2} | $taken | $compared | $udp | $veth |"
done

if ((${#problems[@]})); then
    echo
    printf '* %s\n' "${problems[@]}"
    exit 1
fi
