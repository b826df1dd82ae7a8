/* SPDX-License-Identifier: BSD-2-Clause */
#include "iscsi/initiator/initiator_iser.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

enum {
	TAG_SLOT_FIRST = 256, /* tags of control PDUs are below, those of commands are not */
	TAG_SLOT_BITS = 16
};

_Static_assert(TAG_SLOT_FIRST + (int)ISCSI_DEPTH_MAX < 1 << TAG_SLOT_BITS, "the tag has room");
_Static_assert(TAG_SLOT_FIRST >= (int)ISCSI_PORT_TAGS_MIN, "and so has the other part");

enum command_state { COMMAND_NONE, COMMAND_WAITING, COMMAND_SENT, COMMAND_UNSENT };

struct command {
	struct list link;
	const struct iscsi_request *request;
	enum command_state state;
	uint16_t instance;
	uint32_t itt, tag; /* tag: what was advertised; 0: nothing */
	uint8_t bhs[ISCSI_BHS_BYTES];
};

struct control {
	struct list link;
	uint32_t data_bytes;
	uint8_t bhs[ISCSI_BHS_BYTES];
	uint8_t data[ISCSI_TEXT_MIN];
};

struct iser_port {
	uint32_t depth;
	bool is_closing;
	bool has_immediate;
	uint32_t immediate_max;
	/* MaxOutstandingUnexpectedPDUs of the target, 0: no limit; those without an answer. */
	uint32_t unexpected_max, unexpected;
	struct list out;    /* commands and controls, in the order of sending */
	struct list unsent; /* commands */
	struct list free_controls;
	struct command *commands;
	uint32_t *over,
		over_count; /* slots, each once: it is sent again only after they are taken */
	struct control controls[ISER_PORT_CONTROLS_MAX];
};

/* ---- Life ----------------------------------------------------------------------------------- */

void iser_port_reset(struct iser_port *p)
{
	list_init(&p->out);
	list_init(&p->unsent);
	list_init(&p->free_controls);
	for (uint32_t i = 0; i < ISER_PORT_CONTROLS_MAX; i++) {
		p->controls[i].link = (struct list){ 0 };
		list_add_tail(&p->free_controls, &p->controls[i].link);
	}
	for (uint32_t i = 0; i < p->depth; i++) {
		p->commands[i].link = (struct list){ 0 };
		p->commands[i].state = COMMAND_NONE;
	}
	p->over_count = 0;
	p->is_closing = false;
	p->has_immediate = false;
	p->unexpected_max = p->unexpected = 0;
}

void iser_port_destroy(struct iser_port *p)
{
	if (!p)
		return;
	free(p->commands);
	free(p->over);
	free(p);
}

struct iser_port *iser_port_create(uint32_t depth)
{
	struct iser_port *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->depth = depth;
	p->commands = calloc(depth, sizeof(*p->commands));
	p->over = calloc(depth, sizeof(*p->over));
	if (!p->commands || !p->over) {
		iser_port_destroy(p);
		return NULL;
	}
	iser_port_reset(p);
	return p;
}

void iser_port_wish(struct iscsi_params *wish)
{
	wish->session.has_rdma = true;
	wish->session.needs_hello = false;
	wish->session.needs_r2t = true;
	wish->session.has_immediate_data = true;
	wish->session.unexpected_max = ISER_PORT_UNEXPECTED;
	wish->connection.header_digest = ISCSI_DIGEST_NONE;
	wish->connection.data_digest = ISCSI_DIGEST_NONE;
	wish->connection.initiator_recv_bytes_max = ISER_PORT_RECV_BYTES;
}

bool iser_port_is_closing(const struct iser_port *p)
{
	return p->is_closing;
}

/* ---- What the session asks for -------------------------------------------------------------- */

/* What the session has encoded. */
static struct iscsi_pdu pdu_of(const uint8_t bhs[ISCSI_BHS_BYTES])
{
	struct iscsi_pdu pdu;

	CHECK(iscsi_decode(&pdu, ISCSI_INITIATOR, rd_of(bhs, ISCSI_BHS_BYTES), ISCSI_DATA_MAX) ==
	      WEFT_OK);
	return pdu;
}

/* RFC 7145 section 8.1.1: an answer to a NOP-In is expected, all other control PDUs are not. */
static bool send_control(void *port, const uint8_t bhs[ISCSI_BHS_BYTES], const uint8_t *data,
			 uint32_t data_bytes)
{
	struct iser_port *p = port;
	bool is_unexpected = pdu_of(bhs).itt != ISCSI_TAG_NONE;
	struct control *c;

	if (list_is_empty(&p->free_controls) || data_bytes > sizeof(c->data) ||
	    (is_unexpected && p->unexpected_max > 0 && p->unexpected >= p->unexpected_max))
		return false;
	c = CONTAINER_OF(list_pop(&p->free_controls), struct control, link);
	memcpy(c->bhs, bhs, ISCSI_BHS_BYTES);
	if (data_bytes > 0)
		memcpy(c->data, data, data_bytes);
	c->data_bytes = data_bytes;
	p->unexpected += is_unexpected;
	list_add_tail(&p->out, &c->link);
	return true;
}

static bool send_command(void *port, const struct iscsi_port_command *pc)
{
	struct iser_port *p = port;
	struct command *c = &p->commands[pc->slot];

	if (!list_is_empty(&p->unsent))
		return false;
	CHECK(pc->slot < p->depth && c->state == COMMAND_NONE);
	memcpy(c->bhs, pc->bhs, ISCSI_BHS_BYTES);
	c->request = pc->request;
	c->state = COMMAND_WAITING;
	c->tag = 0;
	list_add_tail(&p->out, &c->link);
	return true;
}

static bool tag_of(void *port, uint32_t slot, uint32_t *itt)
{
	const struct iser_port *p = port;

	if (p->commands[slot].state != COMMAND_SENT)
		return false;
	*itt = p->commands[slot].itt;
	return true;
}

/* The tag that was advertised is the owner's to invalidate. */
static void command_over(struct iser_port *p, struct command *c)
{
	if (c->state == COMMAND_SENT && c->tag != 0)
		p->over[p->over_count++] = (uint32_t)(c - p->commands);
	c->state = COMMAND_NONE;
}

static bool forget(void *port, uint32_t slot)
{
	struct iser_port *p = port;

	list_remove(&p->commands[slot].link);
	command_over(p, &p->commands[slot]);
	return true;
}

static void agreed(void *port, const struct iscsi_params *params)
{
	struct iser_port *p = port;
	uint32_t burst = params->session.first_burst_bytes_max;

	p->has_immediate = params->session.has_immediate_data;
	p->immediate_max = params->connection.target_recv_bytes_max;
	if (burst < p->immediate_max)
		p->immediate_max = burst;
	p->unexpected_max = params->session.peer_unexpected_max;
}

static void close_port(void *port)
{
	struct iser_port *p = port;

	p->is_closing = true;
}

const struct iscsi_port_calls *iser_port_calls(void)
{
	static const struct iscsi_port_calls calls = {
		.tag_count = TAG_SLOT_FIRST,
		.send_control = send_control,
		.send_command = send_command,
		.tag = tag_of,
		.forget = forget,
		.agreed = agreed,
		.close = close_port,
	};

	return &calls;
}

/* ---- To the target -------------------------------------------------------------------------- */

static bool is_control(const struct iser_port *p, const struct list *l)
{
	const uint8_t *at = (const uint8_t *)l;

	return at >= (const uint8_t *)p->controls &&
	       at < (const uint8_t *)(p->controls + ISER_PORT_CONTROLS_MAX);
}

static uint32_t immediate_of(const struct iser_port *p, const struct iscsi_request *r)
{
	return r->direction == ISCSI_WRITE && p->has_immediate &&
			       r->expected_bytes <= p->immediate_max
		       ? r->expected_bytes
		       : 0;
}

bool iser_port_next(struct iser_port *p, struct iser_message *m)
{
	struct command *c;

	*m = (struct iser_message){ 0 };
	if (list_is_empty(&p->out))
		return false;
	if (is_control(p, p->out.next))
		return true;
	c = CONTAINER_OF(p->out.next, struct command, link);
	m->is_command = true;
	m->slot = (uint32_t)(c - p->commands);
	m->request = c->request;
	m->immediate_bytes = immediate_of(p, c->request);
	m->needs_tag = c->request->expected_bytes > 0 && m->immediate_bytes == 0;
	return true;
}

static uint32_t put(const struct iser_header *h, const struct iscsi_pdu *pdu, const uint8_t *data,
		    uint32_t data_bytes, uint8_t *room)
{
	struct wr w = wr_of(room, ISER_PORT_SEND_MAX);

	iser_encode(h, ISER_RFC7145, &w);
	iscsi_encode(pdu, &w);
	if (data_bytes > 0)
		wr_bytes(&w, data, data_bytes);
	CHECK(!w.is_short);
	return (uint32_t)(w.at - room);
}

static uint32_t encode_control(struct iser_port *p, struct control *c, uint8_t *room)
{
	const struct iser_header h = { .kind = ISER_CONTROL };
	struct iscsi_pdu pdu = pdu_of(c->bhs);
	uint32_t length = put(&h, &pdu, c->data, c->data_bytes, room);

	/* It may have held a CHAP response. */
	memset(c->data, 0, c->data_bytes);
	list_add_tail(&p->free_controls, &c->link);
	return length;
}

uint32_t iser_port_encode(struct iser_port *p, uint32_t tag, uint64_t addr, uint8_t *room)
{
	struct iser_header h = { .kind = ISER_CONTROL };
	struct list *first = list_pop(&p->out);
	struct iscsi_pdu pdu;
	struct command *c;

	if (is_control(p, first))
		return encode_control(p, CONTAINER_OF(first, struct control, link), room);
	c = CONTAINER_OF(first, struct command, link);
	c->state = COMMAND_SENT;
	c->itt = (uint32_t)++c->instance << TAG_SLOT_BITS |
		 (TAG_SLOT_FIRST + (uint32_t)(c - p->commands));
	c->tag = tag;
	pdu = pdu_of(c->bhs);
	pdu.itt = c->itt;
	pdu.data_bytes = immediate_of(p, c->request);
	if (pdu.data_bytes == 0 && c->request->direction == ISCSI_WRITE) {
		h.has_write = c->request->expected_bytes > 0;
		h.write_stag = tag;
		h.write_to = addr;
	} else if (c->request->direction == ISCSI_READ) {
		h.has_read = c->request->expected_bytes > 0;
		h.read_stag = tag;
		h.read_to = addr;
	}
	return put(&h, &pdu, NULL, 0, room);
}

void iser_port_refuse(struct iser_port *p)
{
	struct list *next;

	for (struct list *l = p->out.next; l != &p->out; l = next) {
		next = l->next;
		if (is_control(p, l))
			continue;
		list_remove(l);
		CONTAINER_OF(l, struct command, link)->state = COMMAND_UNSENT;
		list_add_tail(&p->unsent, l);
	}
}

bool iser_port_unsent(struct iser_port *p, uint32_t *slot)
{
	struct command *c;

	if (list_is_empty(&p->unsent))
		return false;
	c = CONTAINER_OF(list_pop(&p->unsent), struct command, link);
	c->state = COMMAND_NONE;
	*slot = (uint32_t)(c - p->commands);
	return true;
}

/* ---- From the target ------------------------------------------------------------------------ */

static struct command *command_of(struct iser_port *p, uint32_t itt)
{
	uint32_t low = itt & ((1U << TAG_SLOT_BITS) - 1);
	struct command *c;

	if (low < TAG_SLOT_FIRST || low - TAG_SLOT_FIRST >= p->depth)
		return NULL;
	c = &p->commands[low - TAG_SLOT_FIRST];
	return c->state == COMMAND_SENT && c->itt == itt ? c : NULL;
}

/* RFC 7145 section 7.3.7: only the tag of the command that the response ends. */
static enum weft_reason answer(struct iser_port *p, const struct iscsi_pdu *pdu,
			       uint32_t invalidated, struct iscsi_received *r)
{
	struct command *c = command_of(p, pdu->itt);

	if (invalidated != 0 && (!c || c->tag != invalidated))
		return WEFT_R_ISER_INVALIDATED;
	if (!c)
		return WEFT_OK; /* the session refuses it */
	r->has_slot = true;
	r->slot = (uint32_t)(c - p->commands);
	command_over(p, c);
	return WEFT_OK;
}

bool iser_port_over(struct iser_port *p, uint32_t *slot)
{
	if (p->over_count == 0)
		return false;
	*slot = p->over[--p->over_count];
	return true;
}

static enum weft_reason take(struct iser_port *p, struct rd at, uint32_t invalidated,
			     struct iscsi_received *r)
{
	struct iser_header h;
	struct iscsi_pdu pdu;
	enum weft_reason reason = iser_decode(&h, ISER_RFC7145, &at);
	uint64_t left = (uint64_t)(at.end - at.at);

	if (reason != WEFT_OK)
		return reason;
	if (h.kind != ISER_CONTROL)
		return WEFT_R_ISER_OPCODE; /* iSERHelloRequired=Yes is never agreed upon */
	if (left < ISCSI_BHS_BYTES)
		return WEFT_R_ISCSI_SHORT;
	r->header = at.at;
	r->header_bytes = iscsi_header_bytes(at.at);
	r->data_bytes = iscsi_data_bytes(at.at);
	if (left < (uint64_t)r->header_bytes + r->data_bytes)
		return WEFT_R_ISCSI_SHORT;
	r->data = at.at + r->header_bytes;
	reason = iscsi_decode(&pdu, ISCSI_TARGET, rd_of(r->header, r->header_bytes),
			      ISER_PORT_RECV_BYTES);
	if (reason != WEFT_OK)
		return reason;
	if (pdu.opcode == ISCSI_DATA_IN || pdu.opcode == ISCSI_R2T)
		return WEFT_R_ISCSI_UNEXPECTED; /* RFC 7145 section 7.3: RDMA takes their place */
	if (p->unexpected > 0 && pdu.itt != ISCSI_TAG_NONE && pdu.opcode != ISCSI_SCSI_RESPONSE)
		p->unexpected--;
	if (pdu.opcode == ISCSI_SCSI_RESPONSE)
		return answer(p, &pdu, invalidated, r);
	return invalidated != 0 ? WEFT_R_ISER_INVALIDATED : WEFT_OK;
}

void iser_port_take(struct iser_port *p, const uint8_t *bytes, uint32_t length,
		    uint32_t invalidated, struct iscsi_received *r)
{
	*r = (struct iscsi_received){ .header = bytes };
	r->reason = take(p, rd_of(bytes, length), invalidated, r);
}
