/* Prints what functions without a device give, so that two libraries can be compared. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/sa.h>
#include <infiniband/verbs.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>

/* librdmacm and drivers' libraries call these; no header declares them. */
void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *to, const struct ib_uverbs_ah_attr *from);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *to, const struct ib_uverbs_qp_attr *from);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *to, const struct ib_user_path_rec *from);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *to, const struct ibv_sa_path_rec *from);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *folder, const char *file, char *buffer, size_t size);

static void print(const char *what, const void *memory, size_t size)
{
    const unsigned char *bytes = memory;
    printf("%s:", what);
    for (size_t at = 0; at < size; at++)
        printf(" %02x", bytes[at]);
    printf("\n");
}

/* Bytes that are all different, but in fields of which the kernel has more than a program's structure. */
static void fill(void *memory, size_t size)
{
    unsigned char *bytes = memory;
    for (size_t at = 0; at < size; at++)
        bytes[at] = at + 1;
}

static void names(void)
{
    for (int number = -2; number < 30; number++) {
        printf("%d: %s, %s, %s, ", number, ibv_node_type_str(number), ibv_port_state_str(number),
               ibv_event_type_str(number));
        printf("%s\n", ibv_wc_status_str(number));
    }
}

static void rates(void)
{
    for (int number = -1; number < 40; number++)
        printf("rate %d: %d, %d\n", number, ibv_rate_to_mult(number), ibv_rate_to_mbps(number));
    for (int multiple = -1; multiple < 500; multiple++)
        printf("multiple %d: %d\n", multiple, mult_to_ibv_rate(multiple));
    for (int mbps = 0; mbps < 1300000; mbps++)
        if (mbps_to_ibv_rate(mbps))
            printf("%d Mbit/s: %d\n", mbps, mbps_to_ibv_rate(mbps));
}

static void conversions(void)
{
    struct ib_uverbs_ah_attr kernel_path;
    struct ib_uverbs_qp_attr kernel_qp;
    struct ib_user_path_rec kernel_record;
    struct ibv_ah_attr path;
    struct ibv_qp_attr qp;
    struct ibv_sa_path_rec record;
    memset(&path, 0, sizeof(path));
    fill(&kernel_path, sizeof(kernel_path));
    ibv_copy_ah_attr_from_kern(&path, &kernel_path);
    print("path", &path, offsetof(struct ibv_ah_attr, port_num) + 1);
    memset(&qp, 0, sizeof(qp));
    qp.qp_state = 3;
    qp.rate_limit = 7;
    fill(&kernel_qp, sizeof(kernel_qp));
    ibv_copy_qp_attr_from_kern(&qp, &kernel_qp);
    print("queue pair", &qp, offsetof(struct ibv_qp_attr, ah_attr));
    print("alternate path", &qp.alt_ah_attr, offsetof(struct ibv_ah_attr, port_num) + 1);
    print("rest", &qp.pkey_index, offsetof(struct ibv_qp_attr, alt_timeout) + 1 - offsetof(struct ibv_qp_attr, pkey_index));
    printf("rate limit %u\n", qp.rate_limit);
    memset(&record, 0, sizeof(record));
    fill(&kernel_record, sizeof(kernel_record));
    kernel_record.mtu = 4;
    ibv_copy_path_rec_from_kern(&record, &kernel_record);
    printf("record: %x %x %x %x %x %x %x %x %x %x %x %x\n", record.dlid, record.slid, record.raw_traffic,
           record.flow_label, record.hop_limit, record.traffic_class, record.reversible, record.numb_path,
           record.pkey, record.sl, record.mtu_selector, record.mtu);
    print("selectors", &record.rate_selector, 5);
    memset(&kernel_record, 0, sizeof(kernel_record));
    ibv_copy_path_rec_to_kern(&kernel_record, &record);
    print("and back", &kernel_record, sizeof(kernel_record));
}

static void files(void)
{
    char buffer[64] = "";
    char folder[] = "/tmp/ibemu-verbs-XXXXXX", path[64];
    const char *texts[] = {"4: ACTIVE\n", "no break", "x", "two\nlines\n"};
    if (!mkdtemp(folder))
        exit(1);
    snprintf(path, sizeof(path), "%s/file", folder);
    for (int at = 0; at < 4; at++) {
        FILE *file = fopen(path, "w");
        fputs(texts[at], file);
        fclose(file);
        int length = ibv_read_sysfs_file(folder, "file", buffer, sizeof(buffer));
        printf("%d: %s\n", length, buffer);
        printf("no room: %d\n", ibv_read_sysfs_file(folder, "file", buffer, strcspn(texts[at], "\n")));
    }
    remove(path);
    printf("absent: %d\n", ibv_read_sysfs_file(folder, "/file", buffer, sizeof(buffer)));
    remove(folder);
    printf("sysfs: %s\n", ibv_get_sysfs_path());
}

int main(void)
{
    names();
    rates();
    conversions();
    files();
    return 0;
}
