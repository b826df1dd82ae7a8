/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A verbs program that uses what only weft has: a window that serves one message and then closes by
 * itself, and the reason why the second message was refused.
 *
 *	verbs_one_touch listen 7471
 *	verbs_one_touch dial 127.0.0.1 7471
 *
 * Everything but the calls that begin with weftdv_ is libibverbs and librdmacm as everywhere. See
 * docs/direct-verbs.md.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

#include <weft/weft_dv.h>

/* What the owner tells its peer. */
struct offer {
	uint64_t addr;
	uint32_t rkey;
};

static char memory[64];
static struct offer offer;

static void must(int is_good, const char *what)
{
	if (is_good)
		return;
	perror(what);
	exit(1);
}

static struct rdma_cm_id *endpoint(const char *host, const char *port, int flags)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = flags }, *found;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_cm_id *id;

	must(rdma_getaddrinfo(host, port, &hints, &found) == 0, "resolve");
	must(rdma_create_ep(&id, found, NULL, &attr) == 0, "create an endpoint");
	rdma_freeaddrinfo(found);
	return id;
}

/* Waits for the end of the request that was posted last. */
static struct ibv_wc sent(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	must(rdma_get_send_comp(id, &wc) == 1, "wait");
	return wc;
}

/* Binds a one-touch window to the memory, on this connection. */
static void open_window(struct rdma_cm_id *id, struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(id->pd, IBV_MW_TYPE_1);
	struct weftdv_bind bind = {
		.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.lkey = mr->lkey,
		.addr = (uintptr_t)memory,
		.length = sizeof(memory),
		.is_one_touch = true,
	};

	must(mw != NULL, "allocate a window");
	errno = weftdv_qp_post_bind(id->qp, mw, &bind);
	must(errno == 0, "bind");
	must(sent(id).status == IBV_WC_SUCCESS, "bind");
	offer = (struct offer){ .addr = bind.addr, .rkey = bind.rkey };
}

static void run_owner(const char *port)
{
	struct rdma_cm_id *listener = endpoint(NULL, port, RAI_PASSIVE), *id;
	struct ibv_mr *mr, *message;
	struct ibv_wc wc;

	must(rdma_listen(listener, 1) == 0, "listen");
	printf("owner: ready at port %u\n", ntohs(rdma_get_src_port(listener)));
	fflush(stdout);
	must(rdma_get_request(listener, &id) == 0, "take a request");
	if (!weftdv_device_is_weft(id->verbs->device)) {
		fprintf(stderr, "%s has no one-touch windows\n", id->verbs->device->name);
		exit(1);
	}
	mr = ibv_reg_mr(id->pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	message = rdma_reg_msgs(id, &offer, sizeof(offer));
	must(mr && message, "register memory");
	/* The peer sends nothing: this one ends when the connection does. */
	must(rdma_post_recvv(id, NULL, NULL, 0) == 0, "post a receive");
	must(rdma_accept(id, NULL) == 0, "accept");
	open_window(id, mr);
	must(rdma_post_send(id, NULL, &offer, sizeof(offer), message, 0) == 0, "send");
	must(sent(id).status == IBV_WC_SUCCESS, "send");
	must(rdma_get_recv_comp(id, &wc) == 1, "wait");
	printf("owner: holds \"%s\"\n", memory);
	printf("owner: why it is over: %s\n", weftdv_qp_reason(id->qp));
}

static void run_peer(const char *host, const char *port)
{
	struct rdma_cm_id *id = endpoint(host, port, 0);
	struct ibv_mr *mr = rdma_reg_msgs(id, memory, sizeof(memory));
	struct ibv_mr *message = rdma_reg_msgs(id, &offer, sizeof(offer));
	struct ibv_wc wc;

	must(mr && message, "register memory");
	must(rdma_post_recv(id, NULL, &offer, sizeof(offer), message) == 0, "post a receive");
	must(rdma_connect(id, NULL) == 0, "connect");
	must(rdma_get_recv_comp(id, &wc) == 1 && wc.status == IBV_WC_SUCCESS, "be offered memory");

	snprintf(memory, sizeof(memory), "first and only");
	must(rdma_post_write(id, NULL, memory, sizeof(memory), mr, 0, offer.addr, offer.rkey) == 0,
	     "write");
	printf("peer:  writes: %s\n", ibv_wc_status_str(sent(id).status));
	must(rdma_post_read(id, NULL, memory, sizeof(memory), mr, 0, offer.addr, offer.rkey) == 0,
	     "read");
	wc = sent(id);
	printf("peer:  reads it back: %s (%s)\n", ibv_wc_status_str(wc.status),
	       weftdv_reason_name(wc.vendor_err));
	must(wc.status != IBV_WC_SUCCESS, "be refused");
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "listen") == 0) {
		run_owner(argv[2]);
	} else if (argc == 4 && strcmp(argv[1], "dial") == 0) {
		run_peer(argv[2], argv[3]);
	} else {
		fprintf(stderr, "usage: %s listen PORT | dial HOST PORT\n", argv[0]);
		return 2;
	}
	return 0;
}
