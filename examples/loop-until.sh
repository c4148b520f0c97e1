#!/usr/bin/env bash
# The condition of the loop: exit 0 when three chapters are there.
[ -s "${OUT:-out}/chapter-3.txt" ]
