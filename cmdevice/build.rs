//! Gives the library its symbols: those of the C library that it stands in front of.
//!
//! They are in a file of C (`src/shims.c`), which is linked to the library that programs load and to nothing else: in
//! the library for Rust they would stand in front of the command's own. The compiler tells the linker by a version script
//! which symbols are visible, which are Rust's; so a linker is put in front that hands on the list in this folder instead.
//! The linker is GNU's, whatever is the default.
//!
//! The library is in a folder in which nothing else is: a link to it in `<target>/<profile>/cmdevice`.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const NAME: &str = "libcmdevice.so";

fn main() -> io::Result<()> {
    for file in ["build.rs", "symbols.map", "src/shims.c"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let object = compile(&out, &folder.join("src/shims.c"))?;
    write_linker(&out, &folder.join("symbols.map"))?;
    println!("cargo::rustc-cdylib-link-arg={}", object.display());
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-B{}", out.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{NAME}");
    link_library(&out)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}

fn compile(out: &Path, source: &Path) -> io::Result<PathBuf> {
    let object = out.join("shims.o");
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compiler = Command::new(compiler);
    // A thread that is cancelled in one of them unwinds through it.
    compiler
        .args(["-std=gnu11", "-O2", "-fPIC", "-fexceptions", "-c", "-o"])
        .args([object.as_path(), source]);
    match compiler.status()?.success() {
        true => Ok(object),
        false => Err(io::Error::other(format!("{compiler:?} has failed"))),
    }
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

/// Makes the folder in which the command finds the library.
fn link_library(out: &Path) -> io::Result<()> {
    // <profile>/build/<package>/out
    let profile = out.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    let folder = profile.join("cmdevice");
    fs::create_dir_all(&folder)?;
    let link = folder.join(NAME);
    match fs::remove_file(&link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    symlink("../deps/libcmdevice.so", link)
}
