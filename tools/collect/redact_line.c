/* SPDX-License-Identifier: Apache-2.0 */
#include "redact.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Names, or beginnings of names (ending in '*'), whose values NCCL's diagnosis needs. */
static const char *const allowed[] = {
	"NCCL_*",
	"NCCLSPY_*",
	"FI_*",
	"OFI_NCCL_*",
	"RDMAV_*",
	"UCX_*",
	"MASTER_ADDR",
	"MASTER_PORT",
	"WORLD_SIZE",
	"RANK",
	"LOCAL_RANK",
	"NODE_RANK",
	"GROUP_RANK",
	"LOCAL_WORLD_SIZE",
	"PET_*",
	"TORCH_NCCL_*",
	"TORCH_DISTRIBUTED_DEBUG",
	"TORCH_CPP_LOG_LEVEL",
	"TORCHELASTIC_*",
	"GLOO_SOCKET_IFNAME",
	"TP_SOCKET_IFNAME",
	"OMPI_MCA_*",
	"CUDA_*",
	"NVIDIA_VISIBLE_DEVICES",
	"NVIDIA_DRIVER_CAPABILITIES",
	"PYTORCH_CUDA_ALLOC_CONF",
	"LD_LIBRARY_PATH",
	"LD_PRELOAD",
	"OMP_NUM_THREADS",
	"SLURM_JOB_ID",
	"SLURM_JOBID",
	"SLURM_NNODES",
	"SLURM_NODELIST",
	"SLURM_JOB_NODELIST",
	"SLURM_NTASKS",
	"SLURM_PROCID",
	"SLURM_LOCALID",
	"SLURM_NODEID",
	"SLURMD_NODENAME",
	"JOB_COMPLETION_INDEX",
	"HOSTNAME",
};

/* Parts of names whose values are secret, whatever stands around them; lower case. */
static const char *const secret_parts[] = {
	"password",
	"passwd",
	"passphrase",
	"secret",
	"token",
	"credential",
	"apikey",
	"api_key",
	"api-key",
	"access_key",
	"accesskey",
	"private_key",
	"signing",
	"session",
	"authorization",
	"cookie",
	"connection_string",
	"pwd",
	"license_key",
	"encryption_key",
	"account_key",
	"sas_url",
	"webhook",
};

/* Beginnings of tokens that their issuers document; what follows is at least as long as given. */
static const struct {
	const char *begin;
	size_t least;
} tokens[] = {
	{"AKIA", 12},   {"ASIA", 12},  {"AROA", 12},        {"hf_", 16},      {"ghp_", 20},
	{"gho_", 20},   {"ghs_", 20},  {"github_pat_", 20}, {"glpat-", 16},   {"xoxb-", 10},
	{"xoxp-", 10},  {"xapp-", 10}, {"sk-", 20},         {"sk_live_", 10}, {"rk_live_", 10},
	{"nvapi-", 20}, {"AIza", 30},  {"ya29.", 20},       {"eyJ", 30},      {"dckr_pat_", 16},
	{"npm_", 30},   {"pypi-", 30}, {"wandb_v1_", 16},   {"FwoG", 40},     {"IQoJ", 40},
};

bool redact_variable_allowed(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++) {
		size_t length = strlen(allowed[i]);

		if (allowed[i][length - 1] == '*' && bytes >= length &&
		    strncmp(name, allowed[i], length - 1) == 0)
			return !redact_name_is_secret(name, bytes);
		if (bytes == length && strncmp(name, allowed[i], length) == 0)
			return true;
	}
	return false;
}

bool redact_name_is_secret(const char *name, size_t bytes)
{
	for (size_t i = 0; i < sizeof(secret_parts) / sizeof(secret_parts[0]); i++) {
		size_t length = strlen(secret_parts[i]);

		for (size_t at = 0; at + length <= bytes; at++) {
			if (strncasecmp(name + at, secret_parts[i], length) == 0)
				return true;
		}
	}
	return bytes >= 4 && strncasecmp(name + bytes - 4, "_key", 4) == 0;
}

/* --- one line --- */

struct out {
	char *text;
	size_t bytes, capacity;
};

static bool put(struct out *out, const char *text, size_t bytes)
{
	if (out->bytes + bytes + 1 > out->capacity) {
		size_t wanted = (out->bytes + bytes + 1) * 2;
		char *larger = realloc(out->text, wanted);

		if (!larger)
			return false;
		out->text = larger;
		out->capacity = wanted;
	}
	memcpy(out->text + out->bytes, text, bytes);
	out->bytes += bytes;
	out->text[out->bytes] = '\0';
	return true;
}

static bool put_removed(struct out *out)
{
	return put(out, REDACT_REMOVED, strlen(REDACT_REMOVED));
}

static bool is_name(int c)
{
	return isalnum(c) || c == '_' || c == '-' || c == '.';
}

static bool is_token(int c)
{
	return isalnum(c) || (c && strchr("_-./+=%~", c));
}

static size_t token_bytes(const char *at)
{
	size_t bytes = 0;

	while (is_token((unsigned char)at[bytes]))
		bytes++;
	return bytes;
}

static size_t known_token(const char *at)
{
	size_t bytes = token_bytes(at);

	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		size_t begin = strlen(tokens[i].begin);

		if (bytes >= begin + tokens[i].least && strncmp(at, tokens[i].begin, begin) == 0)
			return bytes;
	}
	return 0;
}

/*
 * Long runs of letters and digits without structure: keys in hexadecimal (40 and 64 digits) or
 * base 64. Digests of images, which a diagnosis needs, are announced by "sha256:".
 */
static size_t opaque(const char *line, const char *at)
{
	size_t bytes = token_bytes(at), hex = 0, digits = 0, upper = 0, lower = 0, dividers = 0;

	for (size_t i = 0; i < bytes; i++) {
		hex += isxdigit((unsigned char)at[i]) != 0;
		digits += isdigit((unsigned char)at[i]) != 0;
		upper += isupper((unsigned char)at[i]) != 0;
		lower += islower((unsigned char)at[i]) != 0;
		dividers += strchr("-._/", at[i]) != NULL;
	}
	if (at - line >= 7 && strncmp(at - 7, "sha256:", 7) == 0)
		return 0;
	if (hex == bytes && bytes >= 32 && digits && digits < bytes)
		return bytes;
	return bytes >= 40 && dividers * 20 <= bytes && digits >= 2 && upper >= 4 && lower >= 4
		       ? bytes
		       : 0;
}

/* Bytes of "user:password@" behind "://". */
static size_t url_login(const char *at)
{
	size_t bytes = strcspn(at, "@/ \t\"'?#<>");

	return at[bytes] == '@' && memchr(at, ':', bytes) ? bytes : 0;
}

/*
 * The value of "name=value", "--name value": quoted, or up to a space; of "name: value" the rest
 * of the line. In text within text quotes are escaped.
 */
static size_t value_bytes(const char *at, bool to_end)
{
	const char *end = at + (*at == '\\');

	if (*end == '"' || *end == '\'') {
		const char quote = *end++;

		/* An escaped quote ends it only if an escaped one began it. */
		while (*end && *end != quote)
			end += *end == '\\' && end[1] && *at != '\\' ? 2 : 1;
		return (size_t)(end - at) + (*end == quote);
	}
	return strcspn(at, to_end ? "\r\n" : " \t\"'\r\n");
}

/* Schemes stand between "Authorization:" and the secret. */
static const char *skip_scheme(const char *at)
{
	static const char *const schemes[] = {"Bearer ", "Basic ", "Token ", "AWS4-HMAC-SHA256 "};

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		if (strncasecmp(at, schemes[i], strlen(schemes[i])) == 0)
			return at + strlen(schemes[i]);
	}
	return at;
}

/*
 * A name at the beginning of a word and the value that belongs to it, if that must go: returns
 * where the value begins, NULL if nothing is wrong.
 */
static const char *secret_value(const char *at, size_t name_bytes, bool *ret_to_end)
{
	const char *value = at + name_bytes;
	bool option = at[0] == '-', assigned;

	value += strspn(value, "\\\"'");
	value += strspn(value, " \t");
	assigned = *value == '=' || *value == ':';
	*ret_to_end = *value == ':';
	if (!assigned && !(option && value != at + name_bytes))
		return NULL;
	value += assigned;
	value += assigned && *value == '='; /* "==" */
	value += strspn(value, " \t");
	if (!*value)
		return NULL;
	return redact_name_is_secret(at, name_bytes) ? skip_scheme(value) : NULL;
}

/* "export NAME=value", "NAME=value" as printed by env: by the list alone. */
static const char *assignment(const char *line, size_t *ret_name_at, size_t *ret_name_bytes)
{
	const char *at = line + strspn(line, " \t");
	size_t bytes = 0;

	if (strncmp(at, "export ", 7) == 0)
		at += 7;
	while (isupper((unsigned char)at[bytes]) || isdigit((unsigned char)at[bytes]) ||
	       at[bytes] == '_')
		bytes++;
	*ret_name_at = (size_t)(at - line);
	*ret_name_bytes = bytes;
	return bytes >= 2 && at[bytes] == '=' ? at + bytes + 1 : NULL;
}

/* One step: copies or removes what stands at *at. false: out of memory. */
static bool step(struct out *out, const char *line, const char **at)
{
	bool begins = *at == line || !is_token((unsigned char)(*at)[-1]) || (*at)[-1] == '=' ||
		      (*at)[-1] == '/';
	size_t name = 0, gone = 0;
	const char *value;
	bool to_end = false;

	while (begins && is_name((unsigned char)(*at)[name]))
		name++;
	value = name ? secret_value(*at, name, &to_end) : NULL;
	if (value) {
		gone = value_bytes(value, to_end);
		if (!put(out, *at, (size_t)(value - *at)) || !put_removed(out))
			return false;
		*at = value + gone;
		return true;
	}
	if (strncasecmp(*at, "bearer ", 7) == 0 && token_bytes(*at + 7) >= 8) {
		if (!put(out, *at, 7) || !put_removed(out))
			return false;
		*at += 7 + token_bytes(*at + 7);
		return true;
	}
	if (strncmp(*at, "://", 3) == 0 && (gone = url_login(*at + 3)) > 0) {
		if (!put(out, "://", 3) || !put_removed(out))
			return false;
		*at += 3 + gone;
		return true;
	}
	if (begins) {
		gone = known_token(*at);
		gone = gone ? gone : opaque(line, *at);
		*at += gone;
		if (gone)
			return put_removed(out);
	}
	*at += 1;
	return put(out, *at - 1, 1);
}

char *redact_line(const char *line)
{
	struct out out = {0};
	size_t name_at, name_bytes;
	const char *at = line, *value = assignment(line, &name_at, &name_bytes);
	bool ok = put(&out, "", 0);

	if (value && !redact_variable_allowed(line + name_at, name_bytes)) {
		ok = ok && put(&out, line, (size_t)(value - line)) && put_removed(&out);
		at = line + strlen(line);
	}
	while (ok && *at)
		ok = step(&out, line, &at);
	if (!ok) {
		free(out.text);
		return NULL;
	}
	return out.text;
}
