/* SPDX-License-Identifier: BSD-2-Clause */
/* A split network card on one machine: a LAN, an I/O unit and a host, a namespace each. */
#pragma once

/* 0: all of it was seen to be so. */
int demo_card(void);
