//! Gives the library its name and its symbols their versions.
//!
//! A program that was linked to libibumad wants each symbol in the version that it was linked to. The compiler
//! tells the linker by a version script which symbols are visible, and no linker takes a second one beside a
//! script without names of versions. So a linker is put in front that hands on the script in this folder
//! instead. The linker is GNU's, whatever is the default.
//!
//! Programs look for `libibumad.so.3`, in a folder in which nothing else is: a link to the library in
//! `<target>/<profile>/libibumad`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const NAME: &str = "libibumad.so.3";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=symbols.map");
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    write_linker(&out, &folder.join("symbols.map"))?;
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-B{}", out.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{NAME}");
    link_library(&out)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}

/// Writes a program that calls the linker with this version script instead of the compiler's.
fn write_linker(out: &Path, script: &Path) -> io::Result<()> {
    let text = format!(
        "#!/bin/sh\n\
         first=1\n\
         for argument; do\n\
         \x20   [ $first = 1 ] && set -- && first=0\n\
         \x20   case $argument in\n\
         \x20       --version-script=*) set -- \"$@\" '--version-script={}' ;;\n\
         \x20       *) set -- \"$@\" \"$argument\" ;;\n\
         \x20   esac\n\
         done\n\
         exec ld.bfd \"$@\"\n",
        script.display()
    );
    let linker = out.join("ld.bfd");
    fs::write(&linker, text)?;
    fs::set_permissions(&linker, fs::Permissions::from_mode(0o755))
}

/// Makes the folder in which programs find the library.
fn link_library(out: &Path) -> io::Result<()> {
    // <profile>/build/<package>/out
    let profile = out.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    let folder = profile.join("libibumad");
    fs::create_dir_all(&folder)?;
    let link = folder.join(NAME);
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink("../deps/libibumad.so", link)
}
