# SPDX-License-Identifier: Apache-2.0
complete -c ncclspy-top -x -a '(__fish_complete_directories)'
complete -c ncclspy-top -l once -d 'print once as text and end'
complete -c ncclspy-top -l follow -d 'append a line for each change and event'
complete -c ncclspy-top -l json -d 'as JSON'
complete -c ncclspy-top -l interval -x -d 'seconds between two looks'
complete -c ncclspy-top -l sort -x -a 'worst rank lag' -d 'order of the ranks'
complete -c ncclspy-top -s V -l version -d 'print the version'
complete -c ncclspy-top -s h -l help -d 'print a summary'
