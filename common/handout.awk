# handout.awk - takes the solutions out of a file.
#
#   /* BEGIN SOLUTION */          becomes   /* YOUR CODE */
#   /* STUB: (void)x; */          becomes   (void)x;          what the student starts from
#   ...                           is dropped
#   /* END SOLUTION */            becomes   /* END OF YOUR CODE */
#
# Any comment syntax does: only the words count. A region left open, or closed twice, is an error.
/BEGIN SOLUTION/ {
  if (open) { print FILENAME ":" FNR ": BEGIN SOLUTION inside a solution" > "/dev/stderr"; bad = 1; exit }
  open = FNR
  sub(/BEGIN SOLUTION/, "YOUR CODE")
  print
  next
}
/END SOLUTION/ {
  if (!open) { print FILENAME ":" FNR ": END SOLUTION without a beginning" > "/dev/stderr"; bad = 1; exit }
  open = 0
  sub(/END SOLUTION/, "END OF YOUR CODE")
  print
  next
}
open && /STUB:/ {
  indent = $0
  sub(/[^ \t].*/, "", indent)
  sub(/.*STUB:[ \t]*/, "")
  sub(/[ \t]*\*\/[ \t]*$/, "")
  print indent $0
  next
}
!open { print }
END {
  if (bad) exit 1
  if (open) { print FILENAME ":" open ": this solution is never closed" > "/dev/stderr"; exit 1 }
}
