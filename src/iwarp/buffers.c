/* SPDX-License-Identifier: BSD-2-Clause */
#include "iwarp/stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct iwarp_buffers *iwarp_buffers_create(void)
{
	return malloc(sizeof(struct iwarp_buffers));
}

void iwarp_buffers_destroy(struct iwarp_buffers *buffers)
{
	free(buffers);
}

static uint32_t own_rx_bytes(const struct iwarp_stream *s)
{
	return s->terms.takes_markers ? RX_MARKED_BYTES : RX_BYTES;
}

int buffers_init(struct iwarp_stream *s)
{
	s->own_rx = malloc(own_rx_bytes(s));
	s->rx.bytes = s->own_rx;
	s->rx.size = own_rx_bytes(s);
	s->rx.ahead = s->rx.size;
	s->tx.bytes = s->own_tx;
	s->tx.size = TX_BYTES;
	s->tx.fpdus = s->own_fpdus;
	s->tx.fpdus_max = TX_FPDUS;
	return s->own_rx ? 0 : -1;
}

void buffers_fini(struct iwarp_stream *s)
{
	free(s->buffers);
	free(s->own_rx);
}

bool iwarp_is_cramped(const struct iwarp_stream *s)
{
	return s->is_cramped && !s->buffers && s->state == STREAM_OPEN;
}

/* Moves the unprocessed bytes to another buffer, which is large enough. */
static void move_rx(struct rx *rx, uint8_t *bytes, uint32_t size)
{
	uint32_t n = rx->end - rx->start;

	memcpy(bytes, rx->bytes + rx->start, n);
	rx->bytes = bytes;
	rx->size = size;
	rx->start = 0;
	rx->end = n;
}

static void move_tx(struct tx *tx, uint8_t *bytes, struct tx_fpdu *fpdus)
{
	memcpy(bytes, tx->bytes, tx->used);
	for (uint32_t i = 0; i < tx->count; i++)
		fpdus[i] = tx->fpdus[(tx->first + i) % tx->fpdus_max];
	tx->bytes = bytes;
	tx->fpdus = fpdus;
	tx->first = 0;
}

void iwarp_lend(struct iwarp_stream *s, struct iwarp_buffers *own_buffers)
{
	CHECK(!s->buffers);
	s->buffers = own_buffers;
	s->is_cramped = false;
	/* A stream that takes markers has a larger receive buffer of its own. */
	if (!s->terms.takes_markers)
		move_rx(&s->rx, own_buffers->rx, LENT_RX_BYTES);
	move_tx(&s->tx, own_buffers->tx, own_buffers->fpdus);
	s->tx.size = LENT_TX_BYTES;
	s->tx.fpdus_max = LENT_FPDUS;
}

struct iwarp_buffers *iwarp_take_back(struct iwarp_stream *s)
{
	struct iwarp_buffers *buffers = s->buffers;
	bool has_rx = buffers && !s->terms.takes_markers;

	if (!buffers || s->tx.count > 0 || (has_rx && s->rx.end - s->rx.start > RX_BYTES))
		return NULL;
	if (has_rx)
		move_rx(&s->rx, s->own_rx, RX_BYTES);
	move_tx(&s->tx, s->own_tx, s->own_fpdus);
	s->tx.size = TX_BYTES;
	s->tx.fpdus_max = TX_FPDUS;
	s->buffers = NULL;
	return buffers;
}
