/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open MPI on UCX (Debian: openmpi-bin, libopenmpi-dev), between two ranks of this host: by verbs
 * on the drop-in libraries, near, and by UCX's tcp. The ranks are mpi_pair.c, which mpicc compiles
 * beside this program when it is first needed.
 */
#pragma once

#include "net_peer.h"

extern const struct net_peer mpi_near_peer, mpi_tcp_peer;
