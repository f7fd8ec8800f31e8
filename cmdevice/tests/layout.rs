//! Structures of the kernel's interface are those of its headers, and the library leaves other files alone.
//!
//! Needs a compiler of C and the kernel's headers (Debian packages `gcc`, `linux-libc-dev`).

use std::process::Command;

use uverbs::cm::{
    AddressReply, DEVICE, EventParameters, EventReply, QpReply, RouteReply, response_offset,
};

const SOURCE: &str = r"
#include <stddef.h>
#include <stdio.h>
#include <rdma/rdma_user_cm.h>
#define SIZE(type) printf(#type ` %zu\n`, sizeof(struct type))
#define AT(type, field) printf(#type `.` #field ` %zu\n`, offsetof(struct type, field))
int main(void)
{
    SIZE(rdma_ucm_query_route_resp);
    SIZE(rdma_ucm_query_addr_resp);
    SIZE(rdma_ucm_event_resp);
    SIZE(ib_uverbs_qp_attr);
    AT(rdma_ucm_create_id, response);
    AT(rdma_ucm_create_id, ps);
    AT(rdma_ucm_bind_ip, id);
    AT(rdma_ucm_resolve_ip, id);
    AT(rdma_ucm_resolve_addr, dst_addr);
    AT(rdma_ucm_query, response);
    AT(rdma_ucm_connect, id);
    AT(rdma_ucm_accept, id);
    AT(rdma_ucm_reject, private_data);
    AT(rdma_ucm_join_ip_mcast, id);
    AT(rdma_ucm_join_mcast, addr);
    AT(rdma_ucm_set_option, optlen);
    AT(rdma_ucm_migrate_id, fd);
    AT(rdma_ucm_query_route_resp, src_addr);
    AT(rdma_ucm_query_route_resp, num_paths);
    AT(rdma_ucm_event_resp, param);
    AT(ib_uverbs_qp_attr, pkey_index);
    AT(ib_uverbs_qp_attr, rnr_retry);
    return 0;
}
";

/// What a program of C prints.
fn printed(source: &str) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, program) = (folder.path().join("a.c"), folder.path().join("a"));
    std::fs::write(&file, source.replace('`', "\"")).expect("a file");
    let compiled = Command::new("cc")
        .arg("-o")
        .args([&program, &file])
        .status();
    assert!(compiled.expect("a compiler").success());
    let told = Command::new(&program).output().expect("it runs");
    String::from_utf8(told.stdout).expect("text")
}

#[test]
fn structures_are_those_of_the_kernels_headers() {
    let event = EventReply {
        uid: 0,
        id: 0,
        event: 0,
        status: 0,
        parameters: EventParameters::Argument(0),
    };
    let expected = [
        (
            "rdma_ucm_query_route_resp",
            RouteReply::default().bytes().len(),
        ),
        (
            "rdma_ucm_query_addr_resp",
            AddressReply::default().bytes().len(),
        ),
        ("rdma_ucm_event_resp", event.bytes().len()),
        ("ib_uverbs_qp_attr", QpReply::default().bytes().len()),
        // Behind the header of eight bytes.
        (
            "rdma_ucm_create_id.response",
            response_offset(0).expect("it has one") - 8,
        ),
        ("rdma_ucm_create_id.ps", 16),
        ("rdma_ucm_bind_ip.id", 36),
        ("rdma_ucm_resolve_ip.id", 56),
        ("rdma_ucm_resolve_addr.dst_addr", 144),
        (
            "rdma_ucm_query.response",
            response_offset(19).expect("it has one") - 8,
        ),
        ("rdma_ucm_connect.id", 272),
        ("rdma_ucm_accept.id", 280),
        ("rdma_ucm_reject.private_data", 8),
        ("rdma_ucm_join_ip_mcast.id", 44),
        ("rdma_ucm_join_mcast.addr", 24),
        ("rdma_ucm_set_option.optlen", 20),
        ("rdma_ucm_migrate_id.fd", 12),
        ("rdma_ucm_query_route_resp.src_addr", 136),
        ("rdma_ucm_query_route_resp.num_paths", 192),
        ("rdma_ucm_event_resp.param", 20),
        ("ib_uverbs_qp_attr.pkey_index", 124),
        ("ib_uverbs_qp_attr.rnr_retry", 136),
    ];
    let expected: String = expected
        .iter()
        .map(|(name, number)| format!("{name} {number}\n"))
        .collect();
    assert_eq!(printed(SOURCE), expected);
}

#[test]
fn without_a_host_the_device_is_not_there_and_other_files_are_as_they_are() {
    let library = std::env::current_exe().expect("a program");
    let library = library.with_file_name("libcmdevice.so");
    assert!(library.exists(), "{}", library.display());
    let read = |path: &str| {
        let mut cat = Command::new("cat");
        cat.arg(path).env("LD_PRELOAD", &library);
        cat.env_remove(cmdevice::SOCKET).output().expect("cat")
    };
    let hosts = read("/proc/self/comm");
    assert_eq!(hosts.stdout, b"cat\n");
    let device = read(DEVICE);
    assert!(!device.status.success());
    let told = String::from_utf8_lossy(&device.stderr).into_owned();
    assert!(told.contains("No such file"), "{told}");
}
