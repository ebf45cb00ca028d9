"""Throughput against the number of gateways and hosts: measured on this machine, and modelled beyond it."""
