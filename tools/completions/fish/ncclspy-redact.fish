# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-redact -x -n '__fish_is_first_token' -a 'json text'
complete -c ncclspy-redact -l help -d 'print help'
