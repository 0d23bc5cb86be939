/* SPDX-License-Identifier: Apache-2.0 */
#include "kept.h"

#include <errno.h>
#include <stdlib.h>

#include "model.h"
#include "text.h"

#define HOLES_MAX    1024u /* of a hostile trace */
#define COMMANDS_MAX 1024u

static void clear(struct nspy_account *account)
{
	for (size_t i = 0; i < account->command_count; i++)
		free(account->commands[i].text);
	account->command_count = account->hole_count = 0;
}

void nspy_account_done(struct nspy_account *account)
{
	clear(account);
	free(account->holes);
	free(account->commands);
	*account = (struct nspy_account){0};
}

static void add_hole(struct nspy_account *account, const struct nspy_note_hole *hole)
{
	if (account->hole_count == HOLES_MAX || hole->until_ns < hole->from_ns)
		return;
	account->holes = nspy_grow(account->holes, account->hole_count, &account->hole_capacity,
				   sizeof(*account->holes));
	account->holes[account->hole_count++] = *hole;
}

static void add_command(struct nspy_account *account, const struct nspy_note_command *command)
{
	struct nspy_account_command *to;

	if (account->command_count == COMMANDS_MAX)
		return;
	account->commands = nspy_grow(account->commands, account->command_count,
				      &account->command_capacity, sizeof(*account->commands));
	to = &account->commands[account->command_count++];
	*to = (struct nspy_account_command){
		.id = command->id,
		.taken_ns = command->taken_ns,
		.text = nspy_xstrndup(command->text, command->text_bytes),
	};
	nspy_clean(to->text);
}

int nspy_account_ingest(struct nspy_account *account, const uint8_t *payload, size_t bytes)
{
	struct nspy_note note;
	size_t cursor = 0;
	int rc;

	clear(account);
	while ((rc = nspy_note_next(payload, bytes, &cursor, &note)) == 0) {
		switch (note.kind) {
		case NSPY_NOTE_MODE:
			account->mode = note.mode;
			break;
		case NSPY_NOTE_HOLE:
			add_hole(account, &note.hole);
			break;
		case NSPY_NOTE_COMMAND:
			add_command(account, &note.command);
			break;
		case NSPY_NOTE_SELF:
			account->has_self = true;
			account->self = note.self;
			break;
		default:
			break;
		}
	}
	return rc == -ENODATA ? 0 : rc;
}

void nspy_account_live(struct nspy_account *account, const struct nspy_note_mode *mode,
		       const struct nspy_note_hole *hole)
{
	struct nspy_note_hole *last =
		account->hole_count ? &account->holes[account->hole_count - 1] : NULL;

	if (mode->since_ns >= account->mode.since_ns)
		account->mode = *mode;
	if (!hole->records || (last && last->until_ns >= hole->until_ns))
		return;
	if (last && last->from_ns == hole->from_ns)
		*last = *hole;
	else
		add_hole(account, hole);
}

const struct nspy_account *nspy_proc_account(const struct nspy_proc *proc)
{
	return &nspy_proc_whole(proc)->account;
}

/* It stopped keeping records and its newest were not found either. */
static bool went_dark(const struct nspy_proc *proc)
{
	return proc->account.mode.mode != NSPY_MODE_RECORD && !proc->ended_clean &&
	       !proc->live_read;
}

bool nspy_proc_may_miss(const struct nspy_proc *proc, uint64_t when_ns)
{
	const struct nspy_proc *whole = nspy_proc_whole(proc);
	const struct nspy_account *account = &whole->account;

	if (went_dark(whole))
		return true;
	for (size_t i = 0; i < account->hole_count; i++)
		if (nspy_proc_when(whole, account->holes[i].until_ns) >= when_ns)
			return true;
	return false;
}

bool nspy_member_unsure(const struct nspy_member *member)
{
	uint64_t last_ns = member->last.thread ? member->last.rec.enter : 0;

	return member->proc->torn || nspy_proc_may_miss(member->proc, last_ns);
}

bool nspy_attempt_has_hole(const struct nspy_attempt *attempt, uint64_t from_ns, uint64_t to_ns)
{
	for (size_t i = 0; i < attempt->proc_count; i++) {
		const struct nspy_proc *whole = nspy_proc_whole(attempt->procs[i]);
		const struct nspy_account *account = &whole->account;

		for (size_t h = 0; h < account->hole_count; h++)
			if (nspy_proc_when(whole, account->holes[h].from_ns) <= to_ns &&
			    nspy_proc_when(whole, account->holes[h].until_ns) >= from_ns)
				return true;
	}
	return false;
}
