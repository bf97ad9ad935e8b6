# replaced by the test suites
