# plot.gp - draws FOLDER/STAGE_STEP_TYPE.dat (columns: N, FLOP/s, peak bytes, seconds) as speed.KIND and memory.KIND.
files = system("ls " . folder . "/*.dat")
title_of(file) = system("basename " . file . " .dat")
if (kind eq "svg") {
  set terminal svg size 900,500 font "sans,13" background rgb "white"
} else {
  set terminal png size 900,500 background rgb "white"
}
set logscale x 2
set logscale y
set format x "%.0f"
set grid
set key outside right top noenhanced
set xlabel "sequence length N"

set output folder . "/speed." . kind
set title "Forward, " . heads . " heads, head dim " . head_dim . ": speed"
set ylabel "GFLOP/s by 4 N^2 d heads" noenhanced
plot for [file in files] file using 1:($2 / 1e9) with linespoints title title_of(file)

set output folder . "/memory." . kind
set title "Forward, " . heads . " heads, head dim " . head_dim . ": memory"
set ylabel "memory, MB (CPU: peak of the process; GPU: allocated)"
plot for [file in files] file using 1:($3 / 1e6) with linespoints title title_of(file)
