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

# find_cargo USER prints the path of cargo: on PATH, or where rustup puts it for USER.
find_cargo() {
    local home
    home=$(getent passwd "$1" | cut -d: -f6)
    if [[ -x $home/.cargo/bin/cargo ]]; then
        printf '%s\n' "$home/.cargo/bin/cargo"
    elif command -v cargo >/dev/null; then
        command -v cargo
    else
        say 'cargo is missing: install Rust from https://rustup.rs'
        return 1
    fi
}

# build ROOT builds the release binaries of the workspace as the invoker, so that nothing in
# `target` comes to belong to root when this runs through sudo.
build() {
    local root=$1 user cargo owner
    user=$(invoker)
    cargo=$(find_cargo "$user")
    local command=("$cargo" build --release --locked --bins --manifest-path "$root/Cargo.toml")
    command+=(-p ibemu -p switchd -p hostd -p controller)
    owner=$(stat -c %U "$root")
    if [[ $user == "$(id -un)" ]]; then
        PATH="$(dirname "$cargo"):$PATH" "${command[@]}" >&2
    elif [[ $owner == "$user" ]]; then
        sudo -H -u "$user" env "PATH=$(dirname "$cargo"):$PATH" "${command[@]}" >&2
    else
        # A checkout that is not the invoker's: only root may write there.
        local home
        home=$(getent passwd "$user" | cut -d: -f6)
        env "CARGO_HOME=$home/.cargo" "RUSTUP_HOME=$home/.rustup" \
            "PATH=$(dirname "$cargo"):$PATH" "${command[@]}" >&2
    fi
}

# need_binary ROOT: builds only if there is no binary yet.
need_binary() {
    [[ -x $1/target/release/ibemu ]] || build "$1"
}
