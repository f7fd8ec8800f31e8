# Sourced by the scripts beside it: Debian packages, cargo, the build. No output on stdout.
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }

# install_missing COMMAND:PACKAGE... installs the packages whose commands are missing.
install_missing() {
    local pair missing=()
    for pair in "$@"; do
        command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
    done
    ((${#missing[@]})) || return 0
    if ! command -v apt-get >/dev/null; then
        say "missing: ${missing[*]}; install them with this system's package manager"
        return 1
    fi
    local as_root=()
    if ((EUID != 0)); then
        if ! command -v sudo >/dev/null; then
            say "missing: ${missing[*]}; install them as root: apt-get install ${missing[*]}"
            return 1
        fi
        as_root=(sudo)
    fi
    say "installing from Debian: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq >&2
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
}

# invoker prints the user on whose behalf this runs: behind sudo, who called it.
invoker() {
    if ((EUID == 0)) && [[ -n ${SUDO_USER-} && $SUDO_USER != root ]]; then
        printf '%s\n' "$SUDO_USER"
    else
        id -un
    fi
}

# home_of USER prints the user's home directory.
home_of() { getent passwd "$1" | cut -d: -f6; }

# find_cargo USER prints the path of cargo: where rustup puts it for USER or for this user, or on
# PATH (which sudo has reset).
find_cargo() {
    local home
    for home in "$(home_of "$1")" "$HOME"; do
        if [[ -x $home/.cargo/bin/cargo ]]; then
            printf '%s\n' "$home/.cargo/bin/cargo"
            return 0
        fi
    done
    if ! command -v cargo; then
        say 'cargo is missing: install Rust from https://rustup.rs'
        return 1
    fi
}

# build ROOT builds the release binaries of the workspace. Behind sudo this is done as the user who
# called it, if the checkout is theirs, so that nothing in it comes to belong to root.
build() {
    local root=$1 user cargo variables as_user=()
    user=$(invoker)
    cargo=$(find_cargo "$user")
    variables=("PATH=$(dirname "$cargo"):$PATH")
    if [[ $user != "$(id -un)" ]]; then
        if [[ $(stat -c %U "$root") == "$user" ]]; then
            as_user=(sudo -H -u "$user")
        elif [[ $cargo == "$(home_of "$user")"/* ]]; then
            # The user's toolchain, but root's own download cache.
            variables+=("RUSTUP_HOME=$(home_of "$user")/.rustup")
        fi
    fi
    "${as_user[@]}" env "${variables[@]}" "$cargo" build --release --locked \
        --manifest-path "$root/Cargo.toml" --bins \
        --package ibemu --package switchd --package hostd --package controller >&2
}

# need_binary ROOT builds only if there is no binary yet.
need_binary() {
    [[ -x $1/target/release/ibemu ]] || build "$1"
}
