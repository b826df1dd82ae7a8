/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program of libibverbs with a queue pair of RC that obeys lines of its standard input, and
 * answers each:
 *
 *	qp		its number, a region's address and key
 *	connect QPN LID BITS [CODE]	to RTS, by the path bits (LMC) here and to the LID
 *			there; its time until it sends again
 *	alternate LID BITS [PORT]	loads a path, by a port of this node
 *	state STATE	asks for a migration state
 *	path		migration state, LID and path bits of the path, of the alternate one
 *	write ADDR KEY COUNT	so many Writes of all of the region, one after the other
 *	event		waits for the next
 *	device		whether it can do all this
 */
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 65536, LINE_BYTES = 128, TIMEOUT_CODE = 12, RETRIES = 2 };

static uint8_t memory[BYTES];
static struct ibv_context *context;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static struct ibv_qp *qp;

static void need(int is_true, const char *what)
{
	if (is_true)
		return;
	perror(what);
	exit(1);
}

static void begin(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT,
				    .port_num = 1,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_pd *pd;

	need(devices && devices[0], "a device");
	context = ibv_open_device(devices[0]);
	need(context != NULL, "ibv_open_device");
	pd = ibv_alloc_pd(context);
	cq = ibv_create_cq(context, 64, NULL, NULL, 0);
	mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	init.send_cq = init.recv_cq = cq;
	qp = ibv_create_qp(pd, &init);
	need(qp && mr, "ibv_create_qp");
	need(ibv_modify_qp(qp, &attr,
			   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ==
		     0,
	     "INIT");
}

static int connect_to(uint32_t number, uint16_t lid, uint8_t bits, uint8_t timeout)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR,
				 .path_mtu = IBV_MTU_1024,
				 .dest_qp_num = number,
				 .max_dest_rd_atomic = 1,
				 .min_rnr_timer = 12,
				 .ah_attr = { .dlid = lid, .src_path_bits = bits, .port_num = 1 } };
	int error = ibv_modify_qp(qp, &a,
				  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);

	a.qp_state = IBV_QPS_RTS;
	a.timeout = timeout;
	a.retry_cnt = RETRIES;
	a.rnr_retry = 7;
	a.max_rd_atomic = 1;
	return error ? error
		     : ibv_modify_qp(qp, &a,
				     IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					     IBV_QP_MAX_QP_RD_ATOMIC);
}

static int load(uint16_t lid, uint8_t bits, uint8_t port)
{
	struct ibv_qp_attr a = {
		.alt_ah_attr = { .dlid = lid, .src_path_bits = bits, .port_num = port },
		.alt_port_num = port,
		.alt_timeout = TIMEOUT_CODE,
	};

	return ibv_modify_qp(qp, &a, IBV_QP_ALT_PATH);
}

static int ask_for(const char *state)
{
	struct ibv_qp_attr a = { .path_mig_state = IBV_MIG_MIGRATED };

	if (strcmp(state, "REARM") == 0)
		a.path_mig_state = IBV_MIG_REARM;
	if (strcmp(state, "ARMED") == 0)
		a.path_mig_state = IBV_MIG_ARMED;
	return ibv_modify_qp(qp, &a, IBV_QP_PATH_MIG_STATE);
}

static void path_print(void)
{
	static const char *const names[] = {
		[IBV_MIG_MIGRATED] = "MIGRATED",
		[IBV_MIG_REARM] = "REARM",
		[IBV_MIG_ARMED] = "ARMED",
	};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	need(ibv_query_qp(qp, &a, IBV_QP_AV | IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE, &init) == 0,
	     "ibv_query_qp");
	printf("%s %u %u %u %u\n", names[a.path_mig_state], a.ah_attr.dlid, a.ah_attr.src_path_bits,
	       a.alt_ah_attr.dlid, a.alt_ah_attr.src_path_bits);
}

static enum ibv_wc_status write_all(uint64_t addr, uint32_t key)
{
	struct ibv_sge sge = { (uintptr_t)memory, BYTES, mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = IBV_WR_RDMA_WRITE,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { addr, key } };
	struct ibv_wc wc;
	int count = 0;

	need(ibv_post_send(qp, &wr, &bad) == 0, "ibv_post_send");
	while (count == 0)
		count = ibv_poll_cq(cq, 1, &wc);
	need(count == 1, "ibv_poll_cq");
	return wc.status;
}

static void event_print(void)
{
	struct ibv_async_event event;

	need(ibv_get_async_event(context, &event) == 0, "ibv_get_async_event");
	need(event.element.qp == qp, "an event of the queue pair");
	ibv_ack_async_event(&event);
	puts(ibv_event_type_str(event.event_type));
}

static void device_print(void)
{
	struct ibv_device_attr attr;

	need(ibv_query_device(context, &attr) == 0, "ibv_query_device");
	puts(attr.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG ? "migrates" : "stays");
}

static void obey(const char *line)
{
	char word[16], state[16] = "";
	uint64_t a = 0, b = 0, c = 0, d = 0;
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	need(sscanf(line, "%15s", word) == 1, "a word");
	(void)sscanf(line, "%*s %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64, &a, &b, &c, &d);
	(void)sscanf(line, "%*s %15s", state);
	if (strcmp(word, "qp") == 0)
		printf("%u %" PRIuPTR " %u\n", qp->qp_num, (uintptr_t)memory, mr->rkey);
	else if (strcmp(word, "connect") == 0)
		printf("%s\n", strerror(connect_to((uint32_t)a, (uint16_t)b, (uint8_t)c,
						   d ? (uint8_t)d : TIMEOUT_CODE)));
	else if (strcmp(word, "alternate") == 0)
		printf("%s\n", strerror(load((uint16_t)a, (uint8_t)b, c ? (uint8_t)c : 1)));
	else if (strcmp(word, "state") == 0)
		printf("%s\n", strerror(ask_for(state)));
	else if (strcmp(word, "path") == 0)
		path_print();
	else if (strcmp(word, "event") == 0)
		event_print();
	else if (strcmp(word, "device") == 0)
		device_print();
	else if (strcmp(word, "write") == 0) {
		for (uint64_t i = 0; i < c && status == IBV_WC_SUCCESS; i++)
			status = write_all(a, (uint32_t)b);
		puts(ibv_wc_status_str(status));
	}
}

int main(void)
{
	char line[LINE_BYTES];

	begin();
	while (fgets(line, sizeof(line), stdin)) {
		obey(line);
		(void)fflush(stdout);
	}
	return 0;
}
