/* SPDX-License-Identifier: BSD-2-Clause */
#include "unit/store/probe.h"

#include "test.h"

static void probe_submit(struct store *s, struct store_request *r, uint64_t now_ns)
{
	struct probe *p = CONTAINER_OF(s, struct probe, store);

	(void)now_ns;
	REQUIRE(p->asked_count < PROBE_ASKED_MAX);
	p->asked[p->asked_count++] = r;
}

static struct store_request *probe_next_done(struct store *s, uint64_t now_ns)
{
	struct probe *p = CONTAINER_OF(s, struct probe, store);

	(void)now_ns;
	if (list_is_empty(&p->done))
		return NULL;
	return CONTAINER_OF(list_pop(&p->done), struct store_request, link);
}

static void probe_destroy(struct store *s)
{
	(void)s;
}

static const struct store_calls probe_calls = {
	.submit = probe_submit,
	.next_done = probe_next_done,
	.due = store_never_due,
	.expire = store_nothing_expires,
	.memory = store_no_memory,
	.event = store_no_event,
	.destroy = probe_destroy,
};

void probe_init(struct probe *p, uint64_t size_bytes)
{
	*p = (struct probe){
		.store = { .calls = &probe_calls,
			   .shape = { size_bytes, 512, STORE_CAN_ALL, false, false } },
	};
	list_init(&p->done);
}

void probe_end(struct probe *p, uint32_t n, enum weft_reason reason)
{
	REQUIRE(n < p->asked_count && p->asked[n]);
	store_request_end(p->asked[n], reason, reason == WEFT_OK ? 0 : 5);
	list_add_tail(&p->done, &p->asked[n]->link);
	p->asked[n] = NULL;
}

struct joint_config probed_init(struct probed *s, uint32_t count, uint64_t size_bytes,
				uint32_t requests_max)
{
	REQUIRE(count <= PROBES);
	for (uint32_t i = 0; i < count; i++) {
		probe_init(&s->probes[i], size_bytes);
		s->members[i] = &s->probes[i].store;
	}
	return (struct joint_config){ s->members, count, requests_max };
}
