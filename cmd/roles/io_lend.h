/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of this requester that requests of others name: weft io source and sink. */
#pragma once

#include "cmd/roles/io_run.h"

/* "3.1:HANDLE:ADDRESS", as a lender says it. False: it is none, and *memory has not changed. */
bool io_lend_parse(const char *text, struct io_memory *memory);

struct io_loan {
	struct weft_rio_platform self;
	const char *path; /* where the data comes from, or goes to in the end */
	uint64_t length;  /* of a sink; of a source: 0 is all of the file */
	bool is_sink;	  /* others put data there, else they take it */
};

/* Lends until SIGINT or SIGTERM. Says on stdout where it is; on stderr what went wrong. */
int io_lend(struct weft_rio_requester *q, const struct io_loan *loan);
