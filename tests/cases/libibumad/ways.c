/* By which way a MAD goes and comes: P_Key, path bits and GRH of a program's own choice.
 *
 *   ways own                      prints LID and GID of the port
 *   ways ask LID PATH_BITS PKEY GID
 *                                 asks the port with that LID for its ClassPortInfo of performance management by the
 *                                 P_Key of that number, with a GRH to the GID ("-": none). The answer has to come by the same
 *                                 way: prints "answered".
 *   ways refused                  what the tables do not have is refused, and an empty entry is not sent: "refused" */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "request.h"

enum { FLOW_LABEL = 0x12345, TRAFFIC_CLASS = 0x5a, HOP_LIMIT = 7, EMPTY_ENTRY = 31 };

static umad_port_t own;
static int port, agent;

static unsigned char *request(unsigned lid)
{
    unsigned char *umad = get(PERF, 1, 9);
    umad_set_addr(umad, lid, 1, 0, QP1_QKEY);
    return umad;
}

static int entry_of(unsigned pkey)
{
    for (unsigned at = 0; at < own.pkeys_size; at++)
        if (own.pkeys[at] == pkey)
            return at;
    CHECK(!"a P_Key of the table");
    return -1;
}

static int receive(unsigned char *umad)
{
    int length = MAD;
    CHECK(umad_recv(port, umad, &length, 10000) == agent);
    return umad_status(umad);
}

static void ask(char **argument)
{
    unsigned lid = strtoul(argument[0], NULL, 0), bits = strtoul(argument[1], NULL, 0);
    int entry = entry_of(strtoul(argument[2], NULL, 0));
    int is_global = strcmp(argument[3], "-");
    unsigned char *umad = request(lid);
    ib_mad_addr_t *address = umad_get_mad_addr(umad), way = *address;
    address->path_bits = bits;
    CHECK(umad_set_pkey(umad, entry) == 0);
    if (is_global) {
        CHECK(inet_pton(AF_INET6, argument[3], way.gid) == 1);
        way.flow_label = FLOW_LABEL;
        way.traffic_class = TRAFFIC_CLASS;
        way.hop_limit = HOP_LIMIT;
        CHECK(umad_set_grh(umad, &way) == 0);
    }
    CHECK(umad_send(port, agent, umad, MAD, 5000, 0) == 0);
    CHECK(receive(umad) == 0);
    address = umad_get_mad_addr(umad);
    CHECK(ntohs(address->lid) == lid && address->path_bits == bits);
    CHECK(umad_get_pkey(umad) == entry);
    CHECK(!address->grh_present == !is_global);
    if (is_global) {
        CHECK(!memcmp(address->gid, way.gid, sizeof way.gid) && address->gid_index == 0);
        CHECK(ntohl(address->flow_label) == FLOW_LABEL);
        CHECK(address->traffic_class == TRAFFIC_CLASS && address->hop_limit == 255);
    }
    puts("answered");
}

static void refused(void)
{
    unsigned char *umad = request(own.base_lid);
    CHECK(own.pkeys_size > EMPTY_ENTRY && !own.pkeys[EMPTY_ENTRY]);
    umad_set_pkey(umad, own.pkeys_size);
    CHECK(umad_send(port, agent, umad, MAD, 5000, 0) == 0 && receive(umad) == EINVAL);
    umad = request(own.base_lid);
    ib_mad_addr_t way = {.hop_limit = 1};
    umad_set_grh(umad, &way);
    ((ib_mad_addr_t *)umad_get_mad_addr(umad))->gid_index = 8;
    CHECK(umad_send(port, agent, umad, MAD, 5000, 0) == 0 && receive(umad) == EINVAL);
    umad = request(own.base_lid);
    umad_set_pkey(umad, EMPTY_ENTRY);
    CHECK(umad_send(port, agent, umad, MAD, 100, 0) == 0 && receive(umad) == ETIMEDOUT);
    /* A GID that no port has. */
    umad = request(own.base_lid);
    way.gid[0] = 0xfe;
    way.gid[1] = 0x80;
    umad_set_pkey(umad, entry_of(0x8005));
    umad_set_grh(umad, &way);
    CHECK(umad_send(port, agent, umad, MAD, 100, 0) == 0 && receive(umad) == ETIMEDOUT);
    /* By its own it is the right one. */
    umad = request(own.base_lid);
    memcpy(way.gid, &own.gid_prefix, 8);
    memcpy(way.gid + 8, &own.port_guid, 8);
    umad_set_pkey(umad, entry_of(0x8005));
    umad_set_grh(umad, &way);
    CHECK(umad_send(port, agent, umad, MAD, 5000, 0) == 0 && receive(umad) == 0);
    puts("refused");
}

int main(int count, char **argument)
{
    CHECK(umad_init() == 0 && umad_get_port(NULL, 0, &own) == 0);
    CHECK((port = umad_open_port(NULL, 0)) >= 0);
    CHECK((agent = umad_register(port, PERF, 1, 0, NULL)) >= 0);
    if (count == 2 && !strcmp(argument[1], "own")) {
        unsigned char gid[16];
        char text[INET6_ADDRSTRLEN];
        memcpy(gid, &own.gid_prefix, 8);
        memcpy(gid + 8, &own.port_guid, 8);
        printf("%u %s\n", own.base_lid, inet_ntop(AF_INET6, gid, text, sizeof text));
    } else if (count == 2 && !strcmp(argument[1], "refused")) {
        refused();
    } else {
        CHECK(count == 6 && !strcmp(argument[1], "ask"));
        ask(argument + 2);
    }
    CHECK(umad_release_port(&own) == 0 && umad_close_port(port) == 0);
    return 0;
}
