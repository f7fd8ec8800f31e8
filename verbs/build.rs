//! Gives the library its name and its symbols their versions.
//!
//! A program that was linked to libibverbs wants each symbol in the version that it was linked to, and some ask
//! for it by name and version (dlvsym). The compiler tells the linker by a version script which symbols are
//! visible, and no linker takes a second one beside a script without names of versions. So a linker is put in
//! front that hands on a script made here instead: the public names (`symbols.map`), and the private ones
//! (`private.names`), which libraries of drivers want under the version of their release. Those are one
//! function with many names, which C's compiler makes, as one symbol in several versions needs an assembler's
//! directive. The linker is GNU's, whatever is the default.
//!
//! Programs look for `libibverbs.so.1` and `libibverbs.so`, in a folder in which nothing else is: links to the
//! library in `<target>/<profile>/libibverbs`.

use std::fmt::Write as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const NAME: &str = "libibverbs.so.1";
const NAMES: [&str; 2] = [NAME, "libibverbs.so"];

/// The versions that private names have had: of releases up to 56, 58, 63, 64, and from 65 on.
const PRIVATE_VERSIONS: [u32; 5] = [34, 57, 59, 64, 65];

/// What private names stand for: functions of the library, and one that is data.
const KINDS: &str = "\
extern int verbs_refuse(void);
extern void *verbs_refuse_pointer(void);
extern int verbs_query_gid_type(void *, long, long, void *);
extern const char *verbs_wr_opcode_str(int);
static int number(void) { return verbs_refuse(); }
static int minus(void) { verbs_refuse(); return -1; }
static void *null(void) { return verbs_refuse_pointer(); }
static long zero(void) { return 0; }
static void nothing(void) { }
static int query_gid_type(void *a, long b, long c, void *d) { return verbs_query_gid_type(a, b, c, d); }
static const char *wr_opcode_str(int a) { return verbs_wr_opcode_str(a); }
";

fn main() -> io::Result<()> {
    for file in ["build.rs", "symbols.map", "private.names"] {
        println!("cargo::rerun-if-changed={file}");
    }
    let folder = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    let private = fs::read_to_string(folder.join("private.names"))?;
    let script = out.join("symbols.map");
    let public = fs::read_to_string(folder.join("symbols.map"))?;
    fs::write(&script, public + &private_nodes(&private))?;
    let object = compile(&out, &private_symbols(&private))?;
    write_linker(&out, &script)?;
    println!("cargo::rustc-cdylib-link-arg={}", object.display());
    println!("cargo::rustc-cdylib-link-arg=-fuse-ld=bfd");
    println!("cargo::rustc-cdylib-link-arg=-B{}", out.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{NAME}");
    link_library(&out)
}

fn variable(name: &str) -> io::Result<String> {
    env::var(name).map_err(io::Error::other)
}

/// The private names and what they stand for.
fn entries(private: &str) -> impl Iterator<Item = (&str, &str)> {
    private.lines().filter_map(|line| line.split_once(' '))
}

/// The part of the version script for private names.
fn private_nodes(private: &str) -> String {
    let mut text = String::new();
    for version in PRIVATE_VERSIONS {
        let _ = write!(text, "\nIBVERBS_PRIVATE_{version} {{\n    global:\n");
        for (name, _) in entries(private) {
            let _ = writeln!(text, "        {name};");
        }
        let _ = write!(text, "        verbs_register_driver_{version};\n}};\n");
    }
    text
}

/// The source of the private symbols.
fn private_symbols(private: &str) -> String {
    let mut text = KINDS.to_owned();
    for version in PRIVATE_VERSIONS {
        let register = format!("verbs_register_driver_{version}");
        let all = entries(private).chain([(register.as_str(), "nothing")]);
        for (name, kind) in all {
            let symbol = format!("{name}_of_{version}");
            let declared = match kind {
                "false" => format!("_Bool {symbol};"),
                _ => {
                    format!("extern __typeof({kind}) {symbol} __attribute__((alias(\"{kind}\")));")
                }
            };
            let versioned = format!("{symbol}, {name}@IBVERBS_PRIVATE_{version}");
            let _ = writeln!(text, "{declared}\n__asm__(\".symver {versioned}\");");
        }
    }
    text
}

fn compile(out: &Path, source: &str) -> io::Result<PathBuf> {
    let (from, to) = (out.join("private.c"), out.join("private.o"));
    fs::write(&from, source)?;
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut compiler = Command::new(compiler);
    compiler
        .args(["-std=gnu11", "-O2", "-fPIC", "-c", "-o"])
        .args([&to, &from]);
    match compiler.status()?.success() {
        true => Ok(to),
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

/// Makes the folder in which programs find the library.
fn link_library(out: &Path) -> io::Result<()> {
    // <profile>/build/<package>/out
    let profile = out.ancestors().nth(3).ok_or(io::ErrorKind::NotFound)?;
    let folder = profile.join("libibverbs");
    fs::create_dir_all(&folder)?;
    for name in NAMES {
        let link = folder.join(name);
        match fs::remove_file(&link) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        symlink("../deps/libverbs.so", link)?;
    }
    Ok(())
}
