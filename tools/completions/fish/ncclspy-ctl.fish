# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-ctl -x -a 'on off watch mark dump threshold status (__fish_complete_directories)'
complete -c ncclspy-ctl -l wait -d 'until all ranks have taken it up'
complete -c ncclspy-ctl -l json -d 'print the outcome as JSON'
complete -c ncclspy-ctl -l force -d 'leave the command even if no rank is seen to run'
complete -c ncclspy-ctl -s V -l version -d 'print the version'
complete -c ncclspy-ctl -s h -l help -d 'print a summary'
