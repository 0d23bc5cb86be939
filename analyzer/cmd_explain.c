/* SPDX-License-Identifier: Apache-2.0 */
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "explain.h"
#include "finding.h"

static const struct option long_options[] = {
	{"help", no_argument, NULL, 'h'},
	{0},
};

static void usage(FILE *out)
{
	fputs("Usage: ncclspy-analyze explain [OPTION]... [ID|TOPIC]...\n"
	      "\n"
	      "Prints what the references say about a finding (COLLECTIVE_HANG): causes, what to\n"
	      "check, what to do; or a section of the guides (guide.1), or all of one (guide). "
	      "The\n"
	      "text is part of the program. Without an argument it lists findings and topics.\n"
	      "\n"
	      "Options:\n"
	      "  -h, --help  show this help and exit\n"
	      "\n"
	      "Exit status: 0, 2 usage or no such finding.\n",
	      out);
}

static void list(void)
{
	for (int i = 0; i < NSPY_FINDING_COUNT; i++)
		printf("P%d %-28s %s\n", nspy_catalog[i].priority, nspy_catalog[i].id,
		       nspy_catalog[i].title);
	for (const struct nspy_topic *t = nspy_topics; t->name; t++)
		printf("-- %-28s %s\n", t->name, t->title);
}

/* "guide.7", or "guide": all of its sections. */
static bool explain_topic(const char *name)
{
	size_t bytes = strlen(name), found = 0;

	for (const struct nspy_topic *t = nspy_topics; t->name; t++) {
		if (strncasecmp(t->name, name, bytes) != 0 ||
		    (t->name[bytes] && (t->name[bytes] != '.' || strchr(name, '.'))))
			continue;
		printf("%s%s: %s\nreferences/%.*s.md § %s\n\n%s", found++ ? "\n" : "", t->name,
		       t->title, (int)strcspn(t->name, "."), t->name, strchr(t->name, '.') + 1,
		       t->text);
	}
	return found > 0;
}

static void explain(int id)
{
	const struct nspy_catalog *entry = &nspy_catalog[id];

	printf("%s: %s\n"
	       "default priority P%d, page: %s, restart: %s\n"
	       "references/%s § %d\n\n%s\n",
	       entry->id, entry->title, entry->priority, entry->owner, entry->restart, entry->file,
	       entry->section, nspy_explain_text[id]);
}

static int run(int argc, char **argv)
{
	int opt;

	while ((opt = getopt_long(argc, argv, "h", long_options, NULL)) != -1) {
		if (opt != 'h')
			return nspy_cmd_try_help(&nspy_cmd_explain);
		usage(stdout);
		return NSPY_EXIT_OK;
	}
	if (optind == argc)
		list();
	for (int i = optind; i < argc; i++) {
		int id = nspy_catalog_find(argv[i]);

		if (id < 0 && explain_topic(argv[i]))
			continue;
		if (id < 0) {
			fprintf(stderr, "ncclspy-analyze: no finding or topic is called '%s'\n",
				argv[i]);
			return nspy_cmd_try_help(&nspy_cmd_explain);
		}
		explain(id);
	}
	return NSPY_EXIT_OK;
}

const struct nspy_cmd nspy_cmd_explain = {
	.name = "explain",
	.help = "what a finding means and what to do about it; the guides",
	.run = run,
};
