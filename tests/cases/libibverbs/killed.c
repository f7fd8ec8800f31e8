/* Two ends of transfers, of which one, the victim, is killed by SIGKILL: when its own calls have come so far, or when
 * either end sees that the transfer has come so far.
 *
 *   killed victim|survivor OPERATION SELF PEER
 *
 * OPERATION is one of wrsa (WRITE, READ, SEND, atomics of the survivor), or of WRSA (of the victim). The victim kills
 * itself in its SELFth step, or when it sees the progress SELF - STEPS; the survivor kills it when it sees the progress PEER.
 * Each prints a line, which the other one is given: "PID LID QPN ADDRESS KEY". In the end the survivor prints the status
 * with which its work has failed. */
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define DIE(what) do { fprintf(stderr, "%s: errno %d\n", what, errno); exit(1); } while (0)
#define CHUNK 65536u
#define CHUNKS 16u
#define SIZE (CHUNK * CHUNKS)
/* What memory is looked at by: not whole messages, so that some end in the middle of one. */
#define PIECE 40000u
#define STEPS 100
#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define SENDS 1
#define RECEIVES 2

static int is_victim, self_at, peer_at, steps, victim_fd = -1;
static char operation;
static unsigned sends_done, receives_done, receives_posted;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static unsigned char *memory;
static uint64_t peer_address;
static uint32_t peer_key;

static void die_now(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void step(void) {
    if (is_victim && ++steps == self_at) die_now();
}

static int requests(void) {
    return is_victim == (isupper((unsigned char)operation) != 0);
}

/* How far the transfer has come, as this end sees it. */
static unsigned progress(void) {
    int kind = tolower((unsigned char)operation);
    volatile unsigned char *bytes = memory;
    if (kind == 's') return requests() ? sends_done : receives_done;
    if (kind == 'a') return requests() ? sends_done : (unsigned)*(volatile uint64_t *)memory;
    if (requests() == (kind == 'r')) {
        unsigned count = 0;
        while ((count + 1) * PIECE <= SIZE && bytes[(count + 1) * PIECE - 1]) count++;
        return count;
    }
    return sends_done;
}

static void look(void) {
    unsigned now = progress();
    if (is_victim && self_at > STEPS && now >= (unsigned)(self_at - STEPS)) die_now();
    if (!is_victim && peer_at && now >= (unsigned)peer_at)
        syscall(SYS_pidfd_send_signal, victim_fd, SIGKILL, NULL, 0);
    sched_yield();
}

static int victim_is_dead(int patience_ms) {
    struct pollfd ended = {.fd = victim_fd, .events = POLLIN};
    return !is_victim && poll(&ended, 1, patience_ms) == 1;
}

static void post_receive(void) {
    struct ibv_sge sge = {.addr = (uintptr_t)memory + SIZE, .length = CHUNK, .lkey = mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = RECEIVES, .sg_list = &sge, .num_sge = 1};
    if (ibv_post_recv(qp, &wr, &bad)) DIE("a receive request");
    receives_posted++;
}

static void post_request(unsigned number) {
    uint64_t offset = number % CHUNKS * CHUNK;
    struct ibv_sge sge = {.addr = (uintptr_t)memory + offset, .length = CHUNK, .lkey = mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = SENDS, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = peer_address + offset;
    wr.wr.rdma.rkey = peer_key;
    switch (tolower((unsigned char)operation)) {
    case 'w': wr.opcode = IBV_WR_RDMA_WRITE; break;
    case 'r': wr.opcode = IBV_WR_RDMA_READ; break;
    case 's': wr.opcode = IBV_WR_SEND; break;
    default:
        wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        sge.addr = (uintptr_t)memory + SIZE;
        sge.length = 8;
        wr.wr.atomic.remote_addr = peer_address;
        wr.wr.atomic.compare_add = 1;
        wr.wr.atomic.rkey = peer_key;
    }
    if (ibv_post_send(qp, &wr, &bad)) DIE("a request");
}

static void open_it(void) {
    struct ibv_device **list = ibv_get_device_list(NULL);
    context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (!context) DIE("the device");
    step();
    if (!(pd = ibv_alloc_pd(context))) DIE("a domain");
    step();
    memory = aligned_alloc(4096, SIZE + CHUNK);
    int has_data = requests() != (tolower((unsigned char)operation) == 'r');
    memset(memory, has_data && tolower((unsigned char)operation) != 'a' ? 0x5a : 0, SIZE + CHUNK);
    if (!(mr = ibv_reg_mr(pd, memory, SIZE + CHUNK, ALL))) DIE("a region");
    step();
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    step();
    cq = ibv_create_cq(context, 64, NULL, channel, 0);
    if (!channel || !cq || ibv_req_notify_cq(cq, 0)) DIE("a completion queue");
    step();
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 8, .max_sge = 1}};
    if (!ibv_create_srq(pd, &shared)) DIE("a shared receive queue");
    step();
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = {.max_send_wr = CHUNKS, .max_recv_wr = CHUNKS, .max_send_sge = 1, .max_recv_sge = 1}};
    if (!(qp = ibv_create_qp(pd, &init))) DIE("a queue pair");
    step();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) DIE("INIT");
    step();
    struct ibv_ah_attr way = {.dlid = 1, .port_num = 1};
    if (!ibv_create_ah(pd, &way)) DIE("an address handle");
    step();
}

static void meet(void) {
    struct ibv_port_attr port;
    int pid;
    unsigned lid, qpn;
    if (ibv_query_port(context, 1, &port)) DIE("the port");
    printf("%d %u %u %" PRIu64 " %u\n", getpid(), port.lid, qp->qp_num, (uint64_t)(uintptr_t)memory, mr->rkey);
    fflush(stdout);
    if (scanf("%d %u %u %" SCNu64 " %u", &pid, &lid, &qpn, &peer_address, &peer_key) != 5) DIE("the other end");
    if (!is_victim && (victim_fd = (int)syscall(SYS_pidfd_open, pid, 0)) < 0) DIE("the victim");
    step();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = qpn,
        .max_dest_rd_atomic = 4, .min_rnr_timer = 12, .ah_attr = {.dlid = lid, .port_num = 1}};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                      IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) DIE("RTR");
    step();
    for (unsigned i = 0; i < CHUNKS; i++)
        if (!is_victim || operation == 's') post_receive();
    step();
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 16, .retry_cnt = 4, .rnr_retry = 7, .max_rd_atomic = 4};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                      IBV_QP_MAX_QP_RD_ATOMIC)) DIE("RTS");
    step();
}

/* Transfers until its own work fails, or the peer that asks is dead. The status; 0 if nothing has failed. */
static int transfer(void) {
    unsigned posted = 0;
    int failed = 0;
    for (;;) {
        while (requests() && !failed && posted - sends_done < CHUNKS) {
            post_request(posted++);
            step();
        }
        struct ibv_wc wc;
        int count = ibv_poll_cq(cq, 1, &wc);
        if (count < 0) DIE("poll");
        if (count && wc.wr_id == SENDS) {
            sends_done++;
            if (failed && wc.status != IBV_WC_WR_FLUSH_ERR) DIE("work behind the one that failed was not flushed");
            if (!failed) failed = wc.status;
        } else if (count && wc.status == IBV_WC_SUCCESS) {
            receives_done++;
            receives_posted--;
            post_receive();
        } else if (count) {
            receives_posted--;
        }
        if (!count && failed && posted == sends_done) return failed;
        if (!count && !requests() && victim_is_dead(0)) return 0;
        if (!failed) look();
    }
}

/* What the first message to the dead ends with. */
static int farewell(void) {
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 1, .lkey = mr->lkey};
    struct ibv_send_wr *bad, wr = {.wr_id = SENDS, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    if (ibv_post_send(qp, &wr, &bad)) DIE("the last request");
    for (;;) {
        struct ibv_wc wc;
        if (ibv_poll_cq(cq, 1, &wc) != 1) continue;
        if (wc.wr_id == SENDS) return wc.status;
        receives_posted--;
    }
}

int main(int count, char **words) {
    if (count != 5) return 2;
    is_victim = !strcmp(words[1], "victim");
    operation = words[2][0];
    self_at = atoi(words[3]);
    peer_at = atoi(words[4]);
    open_it();
    meet();
    int status = transfer();
    if (is_victim) DIE("the victim has ended before it was killed");
    /* Its memory goes before the rest of it. */
    if (!victim_is_dead(20000)) DIE("the victim lives");
    if (!status) status = farewell();
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE)) DIE("ERR");
    while (receives_posted) {
        struct ibv_wc wc;
        if (ibv_poll_cq(cq, 1, &wc) != 1) continue;
        if (wc.wr_id != RECEIVES) DIE("a completion of nothing");
        if (wc.status != IBV_WC_SUCCESS && wc.status != IBV_WC_WR_FLUSH_ERR) DIE("a receive request");
        receives_posted--;
    }
    if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq) || ibv_dereg_mr(mr)) DIE("the end");
    printf("%d\n", status);
    return 0;
}
