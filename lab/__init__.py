"""Networks of namespaces for tests, experiments and demos."""
