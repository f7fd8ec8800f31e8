//! The package and the image: what installs into a fresh Debian system, and what runs without any right.

use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::{Outcome, ibemu};

/// A Debian system as debootstrap makes it (`tests/run.sh`).
const DEBIAN: &str = "/usr/local/lib/ibemu-tests/debian";

fn packaging() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../packaging"))
        .canonicalize()
        .expect("packaging")
}

/// Makes the package of the binaries under test, in `folder`.
fn package(folder: &Path) -> PathBuf {
    let binaries = ibemu().parent().expect("a folder").to_owned();
    let mut script = Command::new(packaging().join("deb.sh"));
    let made = Outcome::of(script.arg("--from").arg(binaries).arg("--to").arg(folder));
    PathBuf::from(made.success().stdout.trim())
}

/// A script of bash in mount, process and network namespaces of its own.
fn isolated(script: &str, arguments: &[&Path]) -> Outcome {
    Outcome::of(
        Command::new("unshare")
            .args([
                "--mount",
                "--net",
                "--pid",
                "--fork",
                "--kill-child",
                "bash",
                "-euc",
                script,
                "bash",
            ])
            .args(arguments),
    )
}

#[test]
fn the_package_installs_into_a_fresh_debian_brings_fabrics_up_there_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let package = package(folder.path());
    let system = folder.path().join("debian");
    // Its own root is a mount point, as that of every system is.
    let script = r#"
        cp --archive --reflink=auto "$1" "$2"
        mount --bind "$2" "$2"
        for where in proc:proc tmpfs:run tmpfs:tmp sysfs:sys; do mount -t "${where%%:*}" none "$2/${where##*:}"; done
        mount --rbind /dev "$2/dev"
        ip link set lo up
        cp "$3" "$2/tmp/ibemu.deb"
        exec chroot "$2" /bin/bash -euc '
            find / -xdev | sort >/tmp/before
            dpkg --install /tmp/ibemu.deb
            for name in switchd hostd controller libibumad/libibumad.so.3 libibverbs/libibverbs.so cmdevice/libcmdevice.so; do
                test -s /usr/lib/ibemu/$name
            done
            zcat /usr/share/man/man1/ibemu-up.1.gz | grep -q "ibemu-up 1"
            test -s /usr/share/doc/ibemu/examples/experiments/mlid-fig12.toml
            bash -c "source /usr/share/bash-completion/completions/ibemu && complete -p ibemu"

            ibemu up fat-tree-4-2
            ibemu ping --all
            ibemu exec h0.0 sh -c "echo \$LD_LIBRARY_PATH" | grep /usr/lib/ibemu/libibumad | grep /usr/lib/ibemu/libibverbs
            ibemu exec h0.0 cat /sys/class/infiniband/ibemu0/ports/1/state | grep ACTIVE
            ibemu down

            setpriv --reuid 1000 --regid 1000 --clear-groups bash -euc "
                ibemu up star-2 --transport udp
                ibemu ping h0 h1
                ibemu down"
            dpkg --purge ibemu
            find / -xdev | sort >/tmp/after
            diff /tmp/before /tmp/after | grep -v "/var/\(lib/dpkg\|log\)" | grep "^[<>]" && exit 1
            exit 0'
    "#;
    let _ = isolated(script, &[Path::new(DEBIAN), &system, &package]).success();
}

#[test]
fn the_same_files_give_the_same_package() {
    let (first, second) = (tempfile::tempdir(), tempfile::tempdir());
    let bytes = |folder: std::io::Result<tempfile::TempDir>| {
        std::fs::read(package(folder.expect("a folder").path())).expect("a package")
    };
    assert!(
        bytes(first) == bytes(second),
        "two packages of the same files differ"
    );
}

#[test]
fn a_folder_without_the_binaries_is_no_package() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut script = Command::new(packaging().join("deb.sh"));
    let refused = Outcome::of(
        script
            .arg("--from")
            .arg(folder.path())
            .arg("--to")
            .arg(folder.path()),
    );
    refused.fails_with(1, "is missing: build all of ibemu");
    Outcome::of(Command::new(packaging().join("deb.sh")).arg("--form")).fails_with(2, "usage");
}

#[test]
fn an_image_of_the_containerfile_runs_without_a_capability_on_a_root_that_is_read_only() {
    let folder = tempfile::tempdir().expect("a folder");
    package(folder.path());
    let script = r#"
        store=$3
        on() { buildah --root "$store/images" --runroot "$store/containers" "$@"; }
        base=$(on from scratch)
        on add --quiet "$base" "$1" /
        on commit --quiet "$base" localhost/debian
        on build --isolation chroot --build-arg BASE=localhost/debian --tag ibemu --file "$2/Containerfile" "$store"
        container=$(on from localhost/ibemu)
        entry=$(on inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$container")
        test "$entry" = /usr/lib/ibemu/container.sh
        root=$(on mount "$container")
        mount --bind "$root" "$root"
        mount -o remount,bind,ro "$root"
        mount -t proc none "$root/proc"
        mount -t tmpfs -o mode=1777 none "$root/tmp"
        mount --rbind /dev "$root/dev"
        ip link set lo up
        chroot "$root" setpriv --reuid 1000 --regid 1000 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs \
            bash -euc '
                grep -q "CapBnd:.0000000000000000" /proc/self/status
                ! touch /tried 2>/dev/null
                mkfifo /tmp/said
                exec 3<>/tmp/said
                "$0" star-3 --transport udp >&3 & container=$!
                while read -r line <&3; do
                    case $line in *" is up:"*) break ;; esac
                done
                ibemu ping --all
                kill -TERM $container
                wait $container
                test ! -e /tmp/ibemu-1000/ib' "$entry"
    "#;
    let _ = isolated(script, &[Path::new(DEBIAN), &packaging(), folder.path()]).success();
}
