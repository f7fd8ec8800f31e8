/* Every name that a release of rdma-core exports, in its version, and what the newer ones do. The argument: how many
 * adapters there are. Prints "ok". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/umad.h>

#define CHECK(truth)                                                                  \
    do {                                                                              \
        if (!(truth)) {                                                               \
            fprintf(stderr, "line %d: %s (errno %d)\n", __LINE__, #truth, errno);     \
            _exit(1);                                                                 \
        }                                                                             \
    } while (0)

/* libibumad.map of rdma-core 64. */
static const struct {
    const char *version;
    const char *names[40];
} exported[] = {
    {"IBUMAD_1.0",
     {"umad_init", "umad_done", "umad_get_cas_names", "umad_get_ca_portguids", "umad_open_port", "umad_get_ca",
      "umad_release_ca", "umad_get_port", "umad_release_port", "umad_close_port", "umad_get_mad", "umad_get_issm_path",
      "umad_size", "umad_set_grh", "umad_set_pkey", "umad_get_pkey", "umad_set_addr", "umad_set_addr_net", "umad_send",
      "umad_recv", "umad_poll", "umad_get_fd", "umad_register", "umad_register2", "umad_register_oui",
      "umad_unregister", "umad_status", "umad_get_mad_addr", "umad_debug", "umad_addr_dump", "umad_dump",
      "umad_class_str", "umad_method_str", "umad_common_mad_status_str", "umad_sa_mad_status_str",
      "umad_attribute_str"}},
    {"IBUMAD_1.1", {"umad_free_ca_device_list", "umad_get_ca_device_list"}},
    {"IBUMAD_1.2", {"umad_sort_ca_device_list"}},
    {"IBUMAD_1.3", {"umad_open_smi_port"}},
    {"IBUMAD_1.4", {"umad_get_smi_gsi_pairs", "umad_get_smi_gsi_pair_by_ca_name"}},
};

/* As newer headers have it. */
struct pair {
    char smi_name[UMAD_CA_NAME_LEN];
    uint32_t smi_preferred_port;
    char gsi_name[UMAD_CA_NAME_LEN];
    uint32_t gsi_preferred_port;
};

static void *library;

static void *symbol(const char *name, const char *version)
{
    void *found = dlvsym(library, name, version);
    if (!found) {
        fprintf(stderr, "%s@%s: %s\n", name, version, dlerror());
        _exit(1);
    }
    return found;
}

static void lists(int adapters)
{
    int (*sort)(struct umad_device_node **, size_t) = symbol("umad_sort_ca_device_list", "IBUMAD_1.2");
    struct umad_device_node *list = umad_get_ca_device_list(), *node;
    int count = 0;
    CHECK(list && sort(&list, 0) == 0);
    for (node = list; node; node = node->next, count++)
        CHECK(!node->next || strcmp(node->ca_name, node->next->ca_name) < 0);
    CHECK(count == adapters);
    CHECK(sort(&list, adapters) == 0);
    CHECK(sort(&list, adapters + 2) == EINVAL);
    umad_free_ca_device_list(list);
}

static void pairs(int adapters)
{
    int (*all)(struct pair *, size_t) = symbol("umad_get_smi_gsi_pairs", "IBUMAD_1.4");
    int (*by_name)(const char *, uint8_t, struct pair *, unsigned) =
        symbol("umad_get_smi_gsi_pair_by_ca_name", "IBUMAD_1.4");
    int (*open_smi)(const char *, int) = symbol("umad_open_smi_port", "IBUMAD_1.3");
    struct pair found[8], one;
    umad_ca_t ca;
    CHECK(all(found, 8) == adapters);
    CHECK(all(found, 1) == 1);
    CHECK(all(found, 8) == adapters);
    for (int at = 0; at < adapters; at++) {
        CHECK(!strcmp(found[at].smi_name, found[at].gsi_name));
        CHECK(umad_get_ca(found[at].smi_name, &ca) == 0);
        for (int number = 1; number <= ca.numports; number++) {
            CHECK(by_name(ca.ca_name, number, &one, 1) == 0);
            CHECK(!strcmp(one.smi_name, ca.ca_name) && !strcmp(one.gsi_name, ca.ca_name));
            CHECK(one.smi_preferred_port == number && one.gsi_preferred_port == number);
            int port = open_smi(ca.ca_name, number);
            CHECK(port >= 0 && umad_close_port(port) == 0);
        }
        CHECK(by_name(ca.ca_name, ca.numports + 1, &one, 0) == -ENODEV);
        CHECK(umad_release_ca(&ca) == 0);
    }
    CHECK(by_name(NULL, 0, &one, 1) == 0 && one.smi_name[0] && one.smi_preferred_port > 0);
    CHECK(by_name("nothing", 0, &one, 0) == -ENODEV && !one.gsi_name[0]);
    CHECK(open_smi("nothing", 1) < 0);
}

int main(int count, char **argument)
{
    int adapters = count > 1 ? atoi(argument[1]) : 1;
    CHECK((library = dlopen("libibumad.so.3", RTLD_NOW)));
    for (size_t at = 0; at < sizeof exported / sizeof *exported; at++)
        for (const char *const *name = exported[at].names; *name; name++)
            symbol(*name, exported[at].version);
    CHECK(umad_init() == 0);
    lists(adapters);
    pairs(adapters);
    puts("ok");
    return 0;
}
