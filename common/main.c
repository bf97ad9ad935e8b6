/* main.c - the program of one stage. */
#include "driver.h"

int main(int argc, char **argv) {
  return fa_driver_main(fa_stages[0], argc, argv);
}
