/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a line of NCCL's own log (NCCL_DEBUG) says about the network that it chose. A pure function,
 * for the recorder, which hears the lines when NCCL writes them.
 *
 * Source: src/init.cc, src/transport/net.cc, src/plugin/net.cc and src/graph/topo.cc of NCCL 2.10
 * to 2.32; where a line is printed by some releases only, its fact is missing for the others.
 */
#ifndef NSPY_NCCL_LINE_H
#define NSPY_NCCL_LINE_H

#include <stdbool.h>

#define NSPY_NCCL_WORD_BYTES 96u

/*
 * nccl.network    name of the network that a communicator uses: "Socket", "IB", or a plugin's
 * nccl.via        the same of a connection that was made, with "/GDRDMA" if it reads GPU memory
 * nccl.net_failed the network that could not be started
 * nccl.net_error  why NCCL has no network at all
 * nccl.gdr_off, nccl.gdr_on   a network device that cannot, or can, reach GPU memory
 */
enum nspy_nccl_fact {
	NSPY_NCCL_NETWORK,
	NSPY_NCCL_VIA,
	NSPY_NCCL_NET_FAILED,
	NSPY_NCCL_NET_ERROR,
	NSPY_NCCL_GDR_OFF,
	NSPY_NCCL_GDR_ON,
	NSPY_NCCL_FACTS
};

extern const char *const nspy_nccl_fact_keys[NSPY_NCCL_FACTS];

/*
 * line: one line with its prefix, or several in one write, ended by a zero. false: nothing of the
 * above. The value is printable and not empty.
 */
bool nspy_nccl_line(const char *line, enum nspy_nccl_fact *ret_fact,
		    char ret_value[NSPY_NCCL_WORD_BYTES]);

#endif
