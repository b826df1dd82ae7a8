/* SPDX-License-Identifier: BSD-2-Clause */
#include "rd_world.h"

#include <stdlib.h>

#include "ib/ee.h"
#include "test.h"

struct node nodes[WORLD_NODES];
struct ib_mesh *mesh;
static int count;

struct ib_port *port_of(int node)
{
	return ib_mesh_node(mesh, node)->port;
}

static void node_open(struct node *n)
{
	const struct weft_adapter_options ao = { .tags_max = 64,
						 .translations_max = 64,
						 .qps_max = 64 };
	const struct weft_cq_options co = { .entries_max = 1024 };

	*n = (struct node){ .memory = calloc(1, BYTES) };
	MUST(weft_adapter_open(&ao, &n->adapter));
	MUST(weft_pd_create(n->adapter, NULL, &n->pd));
	MUST(weft_cq_create(n->adapter, &co, &n->send_cq));
	MUST(weft_cq_create(n->adapter, &co, &n->recv_cq));
	const struct weft_region_options ro = {
		.addr = (uintptr_t)n->memory,
		.length = BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_READ |
			  WEFT_REMOTE_WRITE | WEFT_REMOTE_ATOMIC,
	};
	MUST(weft_region_register(n->pd, &ro, &n->tag));
}

void world_open(int nodes_count, const struct sim_faults *faults)
{
	struct weft_adapter *adapters[WORLD_NODES];
	struct ib_mesh_options o = { .seed = 1, .nodes = nodes_count };

	if (faults)
		o.faults = *faults;
	count = nodes_count;
	for (int i = 0; i < count; i++) {
		node_open(&nodes[i]);
		adapters[i] = nodes[i].adapter;
	}
	mesh = ib_host_mesh(&o, adapters);
	REQUIRE(mesh);
}

void world_close(void)
{
	for (int i = 0; i < count; i++) {
		for (uint32_t k = 0; k < nodes[i].qp_count; k++)
			MUST(weft_qp_destroy(nodes[i].qps[k]));
	}
	ib_mesh_close(mesh);
	for (int i = 0; i < count; i++) {
		struct node *n = &nodes[i];

		MUST(weft_region_deregister(n->pd, n->tag));
		MUST(weft_cq_destroy(n->send_cq));
		MUST(weft_cq_destroy(n->recv_cq));
		MUST(weft_pd_destroy(n->pd));
		MUST(weft_adapter_close(n->adapter));
		free(n->memory);
	}
}

struct ib_ee_config ee_config(void)
{
	return (struct ib_ee_config){
		.path = { .mtu_bytes = MTU },
		.rdd = RDD,
		.psn_send = 0xfffffe,
		.timeout_code = 12, /* 17 ms */
		.retries = 7,
		.rnr_retries = IB_RNR_RETRY_FOREVER,
	};
}

struct weft_qp *qp_open(int node, enum weft_qp_service service)
{
	struct node *n = &nodes[node];
	const struct weft_qp_options qo = {
		.service = service,
		.send_cq = n->send_cq,
		.recv_cq = n->recv_cq,
		.is_every_send_signalled = true,
	};
	struct weft_qp *qp;

	MUST(weft_qp_create(n->pd, &qo, &qp));
	n->qps[n->qp_count++] = qp;
	return qp;
}

struct weft_qp *rd_open(int node, uint32_t q_key, uint32_t rdd)
{
	const struct weft_qp_attr patient = { .receiver_wait_ns = UINT64_MAX };
	struct weft_qp *qp = qp_open(node, WEFT_RD);
	const struct ib_config k = {
		.rnr_timer_code = 14, .reads_out = 4, .q_key = q_key, .rdd = rdd
	};

	MUST(weft_qp_modify(qp, &patient, WEFT_QP_RECEIVER_WAIT));
	MUST(ib_mesh_attach(mesh, qp, &k));
	return qp;
}

void receive(int node, struct weft_qp *qp, uint64_t id, uint32_t offset, uint32_t bytes)
{
	const struct weft_sge s = { (uintptr_t)nodes[node].memory + offset, bytes,
				    nodes[node].tag };
	const struct weft_recv_wr wr = { .id = id, .sges = &s, .sge_count = 1 };

	MUST(weft_qp_post_recv(qp, &wr, 1, NULL));
}

void post(int from, struct weft_qp *qp, int to, const struct weft_qp *dest, struct weft_send_wr wr)
{
	struct weft_sge s = { (uintptr_t)nodes[from].memory, wr.sge_count, nodes[from].tag };
	struct ib_ee *ee = ib_mesh_ee(mesh, from, to);

	wr.sges = &s;
	wr.sge_count = 1;
	wr.remote_addr = (uintptr_t)nodes[to].memory + BYTES / 2;
	wr.remote_tag = wr.remote_tag ? wr.remote_tag : nodes[to].tag;
	wr.dest_qp_number = weft_qp_number(dest);
	wr.remote_q_key = wr.remote_q_key ? wr.remote_q_key : Q_KEY;
	wr.ee = ee ? ib_ee_handle(ee) : NULL;
	MUST(weft_qp_post_send(qp, &wr, 1, NULL));
}

struct weft_send_wr request(enum weft_opcode opcode, uint64_t id, uint32_t bytes)
{
	return (struct weft_send_wr){ .id = id, .opcode = opcode, .sge_count = bytes };
}

void step(void)
{
	int who = ib_mesh_step(mesh);
	uint32_t none;

	for (int i = 0; i < count; i++) {
		if (who < 0 || who == i)
			MUST(weft_cq_poll(nodes[i].send_cq, NULL, 0, &none));
	}
	REQUIRE(ib_mesh_world(mesh)->now_ns < UINT64_C(100) * 1000000000);
}

struct weft_completion take(struct weft_cq *cq)
{
	struct weft_completion c;
	uint32_t taken = 0;

	for (;;) {
		MUST(weft_cq_poll(cq, &c, 1, &taken));
		if (taken == 1)
			return c;
		step();
	}
}

void sent(int node, uint64_t id, enum weft_status status)
{
	struct weft_completion c = take(nodes[node].send_cq);

	EXPECT_EQ(c.id, id);
	EXPECT_EQ(c.status, status);
}

enum weft_qp_state state_of(struct weft_qp *qp)
{
	struct weft_qp_attr attr;

	weft_qp_query(qp, &attr);
	return attr.state;
}

void two_nodes(void)
{
	const struct ib_ee_config k = ee_config();

	world_open(2, NULL);
	MUST(ib_mesh_join(mesh, 0, 1, &k));
}
