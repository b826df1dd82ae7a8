/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reports for other processes of the same user: an abstract unix socket, at which a client is sent
 * one text, then the connection is closed. Nothing is read from clients, and none can block.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPORT_NAME_MAX = 64 };

struct report_client {
	int fd;
	bool is_same_user; /* others get nothing */
	char *text;	   /* owned; set by the caller after the accept */
	size_t length, sent;
	uint64_t end_ns; /* for the caller */
};

/* A listening descriptor, or a negative errno. */
int report_listen(const char *name);

/* 0; -EAGAIN: no client waits; or another negative errno. */
int report_client_accept(int listener, struct report_client *c);

/* Sends as much as the socket takes. False: all is sent, or the client is gone. */
bool report_client_send(struct report_client *c);

void report_client_close(struct report_client *c);
