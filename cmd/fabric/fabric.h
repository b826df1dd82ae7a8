/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files of weft fabric share. argv[0] is the verb; all return the exit status. */
#pragma once

#include <stdbool.h>

#include "fabric/topology.h"
#include "wire/fabric_msg.h"

extern const char fabric_help[];

/* The help, and why it is shown. Returns the exit status. */
int fabric_misused(const char *why);

/* Why a fabric that runs refused what was asked of a node; returns the exit status. */
int fabric_failed(const char *what, const char *node, enum weft_reason reason);

/* NODE or NODE:PORT. False: it is neither. */
bool fabric_where_read(const char *text, struct fabric_msg_where *where);

/* Topologies of known forms, printed. */
int fabric_make(int argc, char **argv);

/* A fabric, until it is told to end. */
int fabric_serve(int argc, char **argv);

/* What a fabric that runs does, as a picture of text; frames of a port of it, to a file. */
int fabric_top(int argc, char **argv);
int fabric_capture(int argc, char **argv);

/* A node between the fabric and the host's network. */
int fabric_bridge(int argc, char **argv);

/* Cables of a fabric that runs: cut, mend, errors, degrade. */
int fabric_cable(int argc, char **argv);
