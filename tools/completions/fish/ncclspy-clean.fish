# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-clean -x -a '(__fish_complete_directories)'
complete -c ncclspy-clean -l older-than -x -d 'last written so long ago: 14d, 36h, 90m'
complete -c ncclspy-clean -l yes -d 'remove them'
complete -c ncclspy-clean -s V -l version -d 'print the version'
complete -c ncclspy-clean -s h -l help -d 'print help'
