/* SPDX-License-Identifier: BSD-2-Clause */
#include <stdlib.h>
#include <sys/mman.h>

#include <weft/weft.h>

#include "base/prng.h"
#include "subjects.h"

enum { PAGE_BYTES = 4096, WORD_BYTES = 8 };

static const uint64_t gib = UINT64_C(1) << 30;

/* ---- Registration ---------------------------------------------------------------------------- */

struct registrar {
	struct weft_adapter *adapter;
	struct weft_pd *pd;
	struct weft_region_options region;
	struct weft_page_list list;
	void *memory; /* 1 GiB, of which no page is ever touched */
	uint64_t *pages;
};

static void *registrar_open(const struct subject *s)
{
	struct registrar *r = calloc(1, sizeof(*r));

	(void)s;
	must_be(r != NULL, "memory for a registrar");
	must(weft_adapter_open(NULL, &r->adapter), "adapter");
	must(weft_pd_create(r->adapter, NULL, &r->pd), "protection domain");
	r->memory = mmap(NULL, gib, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	must_be(r->memory != MAP_FAILED, "mapping of 1 GiB");
	r->region = (struct weft_region_options){
		.addr = (uintptr_t)r->memory,
		.length = gib,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
	};
	return r;
}

/* A list of as many pages as the subject has parts, in random order. */
static void *page_registrar_open(const struct subject *s)
{
	struct registrar *r = registrar_open(s);
	struct prng prng = { 3 };

	r->pages = calloc(s->parts, sizeof(*r->pages));
	must_be(r->pages != NULL, "memory for a page list");
	for (uint32_t i = 0; i < s->parts; i++) {
		uint32_t j = prng_below(&prng, i + 1);

		r->pages[i] = r->pages[j];
		r->pages[j] = (uintptr_t)r->memory + (uint64_t)i * PAGE_BYTES;
	}
	r->list = (struct weft_page_list){
		.pages = r->pages,
		.count = s->parts,
		.page_size_bytes = PAGE_BYTES,
	};
	r->region.va = r->region.addr;
	r->region.length = (uint64_t)s->parts * PAGE_BYTES;
	r->region.pages = &r->list;
	return r;
}

static void registrar_run(void *context, uint64_t count)
{
	struct registrar *r = context;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t tag;

		must(weft_region_register(r->pd, &r->region, &tag), "registration");
		must(weft_region_deregister(r->pd, tag), "deregistration");
	}
}

static void registrar_close(void *context)
{
	struct registrar *r = context;

	must(weft_pd_destroy(r->pd), "protection domain");
	must(weft_adapter_close(r->adapter), "adapter");
	munmap(r->memory, gib);
	free(r->pages);
	free(r);
}

/* ---- A Write from one queue pair to another -------------------------------------------------- */

struct side {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	uint64_t word;
	uint32_t tag;
};

struct pair {
	struct weft_adapter *adapter;
	struct side writer, target;
};

static void side_open(struct side *s, struct weft_adapter *adapter)
{
	const struct weft_region_options region = {
		.addr = (uintptr_t)&s->word,
		.length = WORD_BYTES,
		.rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_REMOTE_WRITE,
	};

	must(weft_pd_create(adapter, NULL, &s->pd), "protection domain");
	must(weft_cq_create(adapter, NULL, &s->cq), "completion queue");
	must(weft_qp_create(s->pd, &(struct weft_qp_options){ .send_cq = s->cq, .recv_cq = s->cq },
			    &s->qp),
	     "queue pair");
	must(weft_region_register(s->pd, &region, &s->tag), "registration");
}

static void side_close(struct side *s)
{
	must(weft_qp_destroy(s->qp), "queue pair");
	must(weft_region_deregister(s->pd, s->tag), "deregistration");
	must(weft_cq_destroy(s->cq), "completion queue");
	must(weft_pd_destroy(s->pd), "protection domain");
}

static void *pair_open(const struct subject *s)
{
	struct pair *p = calloc(1, sizeof(*p));

	(void)s;
	must_be(p != NULL, "memory for a pair");
	must(weft_adapter_open(NULL, &p->adapter), "adapter");
	side_open(&p->writer, p->adapter);
	side_open(&p->target, p->adapter);
	must(weft_qp_connect(p->writer.qp, p->target.qp), "connection");
	return p;
}

static void pair_close(void *context)
{
	struct pair *p = context;

	side_close(&p->writer);
	side_close(&p->target);
	must(weft_adapter_close(p->adapter), "adapter");
	free(p);
}

static void write_run(void *context, uint64_t count)
{
	struct pair *p = context;
	const struct weft_sge segment = {
		.addr = (uintptr_t)&p->writer.word,
		.length = WORD_BYTES,
		.tag = p->writer.tag,
	};
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_WRITE,
		.flags = WEFT_SIGNALLED,
		.sges = &segment,
		.sge_count = 1,
		.remote_tag = p->target.tag,
		.remote_addr = (uintptr_t)&p->target.word,
	};

	for (uint64_t i = 0; i < count; i++) {
		struct weft_completion done;
		uint32_t polled = 0;

		wr.id = i;
		p->writer.word = i;
		must(weft_qp_post_send(p->writer.qp, &wr, 1, NULL), "post");
		while (polled == 0)
			must(weft_cq_poll(p->writer.cq, &done, 1, &polled), "poll");
		must(done.reason, "Write");
		must_be(done.id == i && p->target.word == i, "Write");
	}
}

const struct subject verbs_subjects[VERBS_SUBJECTS] = {
	{ "register_1g", "register + deregister 1 GiB of ordinary memory", 10, 0, registrar_open,
	  registrar_run, registrar_close },
	{ "register_pages_256", "register + deregister, per page of 256", 0.1, 256,
	  page_registrar_open, registrar_run, registrar_close },
	{ "register_pages_4096", "  the same, per page of 4096", 0.1, 4096, page_registrar_open,
	  registrar_run, registrar_close },
	{ "write_8", "8-byte Write on a loopback pair, post to polled completion", 4, 0, pair_open,
	  write_run, pair_close },
};
