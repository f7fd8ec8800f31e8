//! A program that forks in the middle of its transfers.

use std::process::Command;

use e2e::{Fabric, Outcome, Transport};

/// Writes to itself by RDMA without rest, and forks several times meanwhile. Each child is refused what its parent has opened, opens the
/// device for itself, and ends without cleaning up; the parent's data stays right.
const PROGRAM: &str = r#"
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#define DIE(what) do { fprintf(stderr, "%d: %s: %d\n", getpid(), what, errno); exit(1); } while (0)
#define SIZE 65536
static struct ibv_context *open_it(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (!context) DIE("open");
    return context;
}
static void child(struct ibv_pd *pd, struct ibv_cq *cq, char *memory) {
    errno = 0;
    if (ibv_reg_mr(pd, memory, SIZE, 0) || errno != ENODEV) DIE("the parent's domain");
    if (ibv_create_cq(pd->context, 1, NULL, NULL, 0) || errno != ENODEV) DIE("the parent's context");
    struct ibv_wc wc;
    if (ibv_poll_cq(cq, 1, &wc) > 0) DIE("the parent's completion");
    struct ibv_pd *own = ibv_alloc_pd(open_it());
    if (!own || !ibv_reg_mr(own, memory, SIZE, IBV_ACCESS_LOCAL_WRITE)) DIE("its own");
    _exit(0);
}
int main(void) {
    struct ibv_context *context = open_it();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    char *memory = aligned_alloc(4096, 2 * SIZE);
    int flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 2 * SIZE, flags);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    struct ibv_port_attr port;
    if (!mr || !qp || ibv_query_port(context, 1, &port)) DIE("objects");
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = flags};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) DIE("INIT");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = qp->qp_num,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = {.dlid = port.lid, .port_num = 1}};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) DIE("RTR");
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC)) DIE("RTS");
    for (int round = 0; round < 100; round++) {
        memset(memory, round + 1, SIZE);
        struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = SIZE, .lkey = mr->lkey};
        struct ibv_send_wr *bad, wr = {.wr_id = round, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
            .send_flags = IBV_SEND_SIGNALED, .wr.rdma = {.remote_addr = (uintptr_t)memory + SIZE, .rkey = mr->rkey}};
        if (ibv_post_send(qp, &wr, &bad)) DIE("post");
        pid_t forked = round % 10 == 5 ? fork() : -1;
        if (forked == 0) child(pd, cq, memory);
        struct ibv_wc wc;
        while (ibv_poll_cq(cq, 1, &wc) == 0);
        if (wc.status != IBV_WC_SUCCESS || wc.wr_id != (uint64_t)round) DIE("completion");
        if (memcmp(memory, memory + SIZE, SIZE)) DIE("data");
        int status = 0;
        if (forked > 0 && (waitpid(forked, &status, 0) != forked || status)) DIE("child");
    }
    printf("done\n");
    return 0;
}
"#;

#[test]
fn children_of_a_program_in_the_middle_of_transfers_neither_have_nor_disturb_what_is_its() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("fork.c"), folder.path().join("fork"));
    std::fs::write(&source, PROGRAM).expect("it can be written");
    let mut compiler = Command::new("cc");
    compiler
        .arg(&source)
        .arg("-libverbs")
        .arg("-o")
        .arg(&program);
    let _ = Outcome::of(&mut compiler).success();
    let fabric = Fabric::up(Transport::Udp, "star-2", &["--unpaced"]);
    let told = Outcome::of(fabric.command(&["exec", "h0"]).arg(&program)).success();
    assert_eq!(told.stdout, "done\n");
    fabric.assert_no_errors_logged();
    fabric.down();
}
