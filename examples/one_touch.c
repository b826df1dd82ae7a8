/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One touch: a window that serves a single transfer and then closes by itself.
 *
 * The owner registers memory, binds a one-touch window to part of it and advertises the window. The
 * peer writes once: good. It writes again: refused, and weft says why. The owner did nothing
 * between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

static void must(enum weft_reason r, const char *what)
{
	if (r == WEFT_OK)
		return;
	fprintf(stderr, "%s: %s (%s)\n", what, weft_reason_text(r), weft_reason_name(r));
	exit(1);
}

/* One side of the connection: its own protection domain, memory and queue pair. */
struct side {
	struct weft_pd *pd;
	struct weft_cq *cq;
	struct weft_qp *qp;
	char memory[64];
	uint32_t tag; /* of that memory */
};

static void side_open(struct side *s, struct weft_adapter *adapter)
{
	must(weft_pd_create(adapter, NULL, &s->pd), "protection domain");
	must(weft_cq_create(adapter, NULL, &s->cq), "completion queue");
	must(weft_qp_create(s->pd, &(struct weft_qp_options){ .send_cq = s->cq, .recv_cq = s->cq },
			    &s->qp),
	     "queue pair");
	must(weft_region_register(s->pd,
				  &(struct weft_region_options){
					  .addr = (uintptr_t)s->memory,
					  .length = sizeof(s->memory),
					  .rights = WEFT_LOCAL_READ | WEFT_LOCAL_WRITE | WEFT_BIND,
				  },
				  &s->tag),
	     "registration");
}

/* Writes text to what was advertised and waits for the verdict. */
static struct weft_completion write_text(struct side *s, const struct weft_advert *to,
					 const char *text)
{
	struct weft_sge segment = { .addr = (uintptr_t)s->memory, .tag = s->tag };
	struct weft_send_wr wr = {
		.opcode = WEFT_OP_WRITE,
		.flags = WEFT_SIGNALLED,
		.sges = &segment,
		.sge_count = 1,
		.remote_tag = to->tag,
		.remote_addr = to->addr,
	};
	struct weft_completion done;
	uint32_t count = 0;

	segment.length = (uint32_t)strlen(text) + 1;
	memcpy(s->memory, text, segment.length);
	must(weft_qp_post_send(s->qp, &wr, 1, NULL), "post");
	while (count == 0)
		must(weft_cq_poll(s->cq, &done, 1, &count), "poll");
	printf("peer   writes \"%s\": %s\n", text, weft_status_name(done.status));
	return done;
}

int main(void)
{
	struct weft_adapter *adapter;
	struct side owner = { 0 }, peer = { 0 };
	struct weft_bind bind = { .length = 32, .rights = WEFT_REMOTE_WRITE, .is_one_touch = true };
	struct weft_advert advert;
	struct weft_completion done;

	must(weft_adapter_open(NULL, &adapter), "adapter");
	side_open(&owner, adapter);
	side_open(&peer, adapter);
	must(weft_qp_connect(owner.qp, peer.qp), "connect");

	must(weft_window_alloc(owner.pd, &bind.window_tag), "window");
	bind.region_tag = owner.tag;
	bind.addr = (uintptr_t)owner.memory;
	must(weft_window_bind(owner.pd, &bind), "bind");
	advert = (struct weft_advert){ bind.addr, bind.length, bind.tag, bind.rights };
	printf("owner  opens a one-touch window of %" PRIu64 " bytes, tag 0x%08" PRIx32 "\n",
	       advert.length, advert.tag);

	done = write_text(&peer, &advert, "first and only");
	printf("owner  now holds \"%s\"; it posted nothing and polled nothing\n", owner.memory);
	if (done.status != WEFT_SUCCESS)
		return 1;

	done = write_text(&peer, &advert, "once more");
	printf("owner  still holds \"%s\"\n", owner.memory);
	printf("reason %s (%s): %s\n", weft_reason_name(done.reason),
	       weft_reason_requirement(done.reason), weft_reason_text(done.reason));
	return done.reason == WEFT_R_TAG_SPENT && strcmp(owner.memory, "first and only") == 0 ? 0
											      : 1;
}
