/* SPDX-License-Identifier: BSD-2-Clause */
/* weft demo paging is examples/paged.c: the build gives its main() this name. */
#pragma once

/* The exit status. */
int demo_paging_main(int argc, char **argv);
