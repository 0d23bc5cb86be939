/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_signal.h"

#include <signal.h>
#include <string.h>

static uint32_t mix(uint32_t sum, uint64_t value)
{
	sum = (sum ^ (uint32_t)value) * 0x9E3779B1u;
	return (sum ^ (uint32_t)(value >> 32)) * 0x85EBCA77u;
}

static uint32_t seal_of(const struct nspy_signal_note *note)
{
	uint32_t sum = mix(0x5349474Eu, note->when_ns);

	sum = mix(sum, note->address);
	sum = mix(sum, (uint32_t)note->number | (uint64_t)(uint32_t)note->code << 32);
	sum = mix(sum, note->tid | (uint64_t)note->sender << 32);
	sum = mix(sum, note->fn | (uint64_t)note->flags << 32);
	return sum ? sum : 1;
}

void nspy_signal_note_write(struct nspy_signal_note *where, const struct nspy_signal_note *note)
{
	atomic_store_explicit(&where->seal, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_release);
	where->when_ns = note->when_ns;
	where->address = note->address;
	where->number = note->number;
	where->code = note->code;
	where->tid = note->tid;
	where->sender = note->sender;
	where->fn = note->fn;
	where->flags = note->flags;
	atomic_store_explicit(&where->seal, seal_of(note), memory_order_release);
}

bool nspy_signal_note_read(const struct nspy_signal_note *where, struct nspy_signal_note *ret)
{
	struct nspy_signal_note note;

	memcpy(&note, where, sizeof(note));
	if (!note.seal || note.seal != seal_of(&note) || note.number < 1 ||
	    note.number > NSPY_SIGNAL_MAX)
		return false;
	*ret = note;
	return true;
}

bool nspy_signal_is_crash(int number)
{
	return number == SIGSEGV || number == SIGBUS || number == SIGFPE || number == SIGILL ||
	       number == SIGABRT;
}

bool nspy_signal_faults(int number, int code)
{
	/* A general protection fault comes with SI_KERNEL and without its address. */
	return number != SIGABRT && nspy_signal_is_crash(number) && code > 0 && code != SI_KERNEL;
}

const char *nspy_signal_name(int number, char *scratch, size_t bytes)
{
	/* sigabbrev_np is younger than the C libraries we run on. */
	static const struct {
		int number;
		const char *name;
	} names[] = {
		{SIGHUP, "SIGHUP"},   {SIGINT, "SIGINT"},   {SIGQUIT, "SIGQUIT"},
		{SIGILL, "SIGILL"},   {SIGTRAP, "SIGTRAP"}, {SIGABRT, "SIGABRT"},
		{SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},   {SIGKILL, "SIGKILL"},
		{SIGSEGV, "SIGSEGV"}, {SIGPIPE, "SIGPIPE"}, {SIGTERM, "SIGTERM"},
		{SIGSYS, "SIGSYS"},   {SIGUSR1, "SIGUSR1"}, {SIGUSR2, "SIGUSR2"},
		{SIGXCPU, "SIGXCPU"}, {SIGALRM, "SIGALRM"},
	};
	static const char head[] = "signal ";

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].number == number)
			return names[i].name;
	if (bytes < sizeof(head) + 2)
		return "a signal";
	memcpy(scratch, head, sizeof(head));
	scratch[sizeof(head) - 1] = (char)('0' + number / 10 % 10);
	scratch[sizeof(head)] = (char)('0' + number % 10);
	scratch[sizeof(head) + 1] = '\0';
	return scratch;
}

const char *nspy_signal_code(int number, int code)
{
	static const struct {
		int number, code;
		const char *text;
	} texts[] = {
		{SIGSEGV, SEGV_MAPERR, "nothing is mapped there"},
		{SIGSEGV, SEGV_ACCERR, "the mapping there does not allow it"},
		{SIGSEGV, SI_KERNEL, "not an address, or a privileged instruction"},
		{SIGBUS, BUS_ADRALN, "an address that is not aligned"},
		{SIGBUS, BUS_ADRERR,
		 "the file mapped there has no such page, or there is no room for it"},
		{SIGBUS, 4, "a memory error of the machine"}, /* BUS_MCEERR_AR */
		{SIGBUS, 5, "a memory error of the machine"}, /* BUS_MCEERR_AO */
		{SIGFPE, FPE_INTDIV, "an integer divided by zero"},
		{SIGFPE, FPE_INTOVF, "an integer overflow"},
		{SIGFPE, FPE_FLTDIV, "a number divided by zero"},
		{SIGFPE, FPE_FLTINV, "an operation without a result"},
		{SIGILL, ILL_ILLOPC, "an instruction that this CPU does not have"},
		{SIGILL, ILL_ILLOPN, "an operand that this CPU does not have"},
		{SIGILL, ILL_PRVOPC, "a privileged instruction"},
	};

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (texts[i].number == number && texts[i].code == code)
			return texts[i].text;
	if (number == SIGABRT && code == SI_TKILL)
		return "the process gave up by itself";
	return code == SI_USER || code == SI_QUEUE ? "sent by a process"
	       : code == SI_TKILL                  ? "sent to the thread"
						   : "";
}
