#!/usr/bin/env bash
# Makes a Debian package of ibemu: the command, its daemons, the libraries that it puts before a program's, manual pages,
# completions, documents and examples. Prints the file's name.
#
#   packaging/deb.sh [--from FOLDER] [--to FOLDER]
#
# --from  the folder that holds the binaries (default: target/release, which is built first)
# --to    where the package goes (default: target/deb)
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=netns-scripts/toolchain.bash
source "$root/netns-scripts/toolchain.bash"

from='' to=$root/target/deb
while (($#)); do
    case $1 in
        --from) from=${2:?'--from needs a folder'} && shift ;;
        --to) to=${2:?'--to needs a folder'} && shift ;;
        *) say "usage: ${BASH_SOURCE[0]} [--from FOLDER] [--to FOLDER]" && exit 2 ;;
    esac
    shift
done
install_missing dpkg-deb:dpkg objdump:binutils
if [[ -z $from ]]; then
    build "$root"
    from=$root/target/release
fi
for needed in ibemu switchd hostd controller libibumad/libibumad.so.3 libibverbs/libibverbs.so.1 cmdevice/libcmdevice.so; do
    [[ -e $from/$needed ]] || { say "$from/$needed is missing: build all of ibemu (cargo build --workspace)" && exit 1; }
done

tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
chmod 755 "$tree"

# What programs do not look for themselves is in one folder, where ibemu finds it beside itself.
private=$tree/usr/lib/ibemu
install -D -t "$private" "$from"/{ibemu,switchd,hostd,controller} "$root/netns-scripts/rsh.sh" "$here/container.sh"
install -D -m 644 -t "$private/libibumad" "$from/libibumad/libibumad.so.3"
install -D -m 644 -t "$private/libibverbs" "$from/libibverbs/libibverbs.so.1"
ln -s libibverbs.so.1 "$private/libibverbs/libibverbs.so"
install -D -m 644 -t "$private/cmdevice" "$from/cmdevice/libcmdevice.so"
find "$private" -type f ! -name '*.sh' -exec strip --strip-unneeded {} +
mkdir -p "$tree/usr/bin"
ln -s ../lib/ibemu/ibemu "$tree/usr/bin/ibemu"

ibemu=$private/ibemu
"$ibemu" man --to "$tree/usr/share/man/man1"
gzip -9n "$tree"/usr/share/man/man1/*
complete() {
    mkdir -p "$(dirname "$tree/usr/share/$2")"
    "$ibemu" completions "$1" >"$tree/usr/share/$2"
}
complete bash bash-completion/completions/ibemu
complete zsh zsh/vendor-completions/_ibemu
complete fish fish/vendor_completions.d/ibemu.fish

documents=$tree/usr/share/doc/ibemu
install -D -m 644 -t "$documents" "$root"/{README,ARCHITECTURE,BENCHMARKS,REFERENCES}.md
install -D -m 644 -t "$documents/docs" "$root"/docs/*.md
install -D -m 644 -t "$documents/examples/experiments" "$root"/experiments/plans/*.toml
install -m 644 "$root/LICENSE" "$documents/copyright"
gzip -9nc "$root/CHANGELOG.md" >"$documents/changelog.gz"

version=$("$ibemu" --version)
version=${version#* }
architecture=$(dpkg --print-architecture)
# The newest version of the C library that a symbol is asked for in.
glibc=$(find "$private" -type f ! -name '*.sh' -exec objdump -T {} + | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)
mkdir -p "$tree/DEBIAN"
cat >"$tree/DEBIAN/control" <<END
Package: ibemu
Version: $version
Architecture: $architecture
Maintainer: The ibemu project <ibemu@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$tree" | cut -f1)
Depends: libc6 (>= ${glibc#GLIBC_}), libgcc-s1
Recommends: iproute2
Suggests: infiniband-diags, opensm, perftest, ibverbs-utils
Description: InfiniBand fabric on one machine, without hardware
 Every switch and every host is a process; real link-layer packets cross veth
 pairs or UDP between them, and a real subnet manager configures them. Stock
 tools and programs of libibumad, libibverbs and librdmacm run beside hosts.
END
(cd "$tree" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$tree/DEBIAN/md5sums"

mkdir -p "$to"
file=$to/ibemu_${version}_$architecture.deb
# The same files give the same package.
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.lock")
export SOURCE_DATE_EPOCH
dpkg-deb --root-owner-group -Zgzip -z6 --build "$tree" "$file" >/dev/null
printf '%s\n' "$file"
