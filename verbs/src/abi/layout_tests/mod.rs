//! The layouts of the distribution's headers are those of [`super::types`].

/// Fields that are called as in C are given once, others as `field = "path in C"`.
macro_rules! layout {
    ($name:literal, $type:ty, $($field:tt $(. $inner:tt)* $(= $path:literal)?),* $(,)?) => {
        (
            $name,
            size_of::<$type>(),
            vec![$((
                layout!(@path $field $(= $path)?),
                core::mem::offset_of!($type, $field $(. $inner)*),
            )),*],
        )
    };
    (@path $field:tt = $path:literal) => { $path };
    (@path $field:tt) => { stringify!($field) };
}

mod attributes;
mod structures;

use std::path::Path;
use std::process::Command;

use super::types::QpEx;
use attributes::{attributes, kernel};
use structures::{devices, objects, work};

/// For each structure its name in C, its size in Rust, and of each field the path in C and the offset in Rust.
type Layout = (&'static str, usize, Vec<(&'static str, usize)>);

/// A program that prints the same numbers as C has them.
fn source(layouts: &[Layout]) -> String {
    let mut lines = String::new();
    for (name, _, fields) in layouts {
        lines += &format!("    printf(\"{name} %zu\\n\", sizeof({name}));\n");
        for (field, _) in fields {
            lines +=
                &format!("    printf(\"{name} {field} %zu\\n\", offsetof({name}, {field}));\n");
        }
    }
    format!(
        "#include <stddef.h>\n#include <stdio.h>\n#include <infiniband/verbs.h>\n#include <infiniband/sa.h>\n\
         #include <rdma/ib_user_sa.h>\n#include <rdma/ib_user_verbs.h>\n\
         int main(void)\n{{\n{lines}    return 0;\n}}\n"
    )
}

fn run(command: &mut Command) -> String {
    let output = command.output().expect("a C compiler and its program");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{stderr}\n(if infiniband/verbs.h is missing: install libibverbs-dev)"
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn printed_by_c(folder: &Path, layouts: &[Layout]) -> String {
    let (from, program) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&from, source(layouts)).expect("a file can be written");
    let _ = run(Command::new("cc").arg("-o").args([&program, &from]));
    run(&mut Command::new(program))
}

#[test]
fn structures_are_laid_out_as_the_distributions_headers_say() {
    let layouts: Vec<Layout> = [work(), devices(), attributes(), objects(), kernel()].concat();
    let mut ours = String::new();
    for (name, size, fields) in &layouts {
        ours += &format!("{name} {size}\n");
        for (field, offset) in fields {
            ours += &format!("{name} {field} {offset}\n");
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let theirs = printed_by_c(folder.path(), &layouts);
    let pairs = ours.lines().zip(theirs.lines());
    let differing: Vec<_> = pairs.filter(|(ours, theirs)| ours != theirs).collect();
    assert_eq!(differing, [], "(ours, theirs)");
    assert_eq!(ours.lines().count(), theirs.lines().count());
}

#[test]
fn functions_for_queue_pairs_with_builders_are_where_the_header_has_them() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let names = [
        "wr_atomic_cmp_swp",
        "wr_atomic_fetch_add",
        "wr_bind_mw",
        "wr_local_inv",
        "wr_rdma_read",
        "wr_rdma_write",
        "wr_rdma_write_imm",
        "wr_send",
        "wr_send_imm",
        "wr_send_inv",
        "wr_send_tso",
        "wr_set_ud_addr",
        "wr_set_xrc_srqn",
        "wr_set_inline_data",
        "wr_set_inline_data_list",
        "wr_set_sge",
        "wr_set_sge_list",
        "wr_start",
        "wr_complete",
        "wr_abort",
        "wr_atomic_write",
    ];
    let first = core::mem::offset_of!(QpEx, ops);
    let fields = names.iter().enumerate();
    let fields: Vec<_> = fields
        .map(|(at, &name)| (name, first + at * size_of::<usize>()))
        .collect();
    let layouts = [(
        "struct ibv_qp_ex",
        first + fields.len() * size_of::<usize>(),
        fields,
    )];
    let theirs = printed_by_c(folder.path(), &layouts);
    // Our structure is longer by one function, of newer releases.
    let theirs: Vec<&str> = theirs.lines().collect();
    let mut ours = vec![format!("struct ibv_qp_ex {}", layouts[0].1)];
    ours.extend(
        layouts[0]
            .2
            .iter()
            .map(|(name, at)| format!("struct ibv_qp_ex {name} {at}")),
    );
    assert_eq!(ours, theirs);
    assert_eq!(size_of::<QpEx>(), layouts[0].1 + size_of::<usize>());
}
