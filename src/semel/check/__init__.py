"""`semel check`: rules over live settings and declared clients, and what to do about those that are broken.

facts.py        what is known of a cluster and its clients; what could not be seen is a fact too
gathering/      asks the cluster and reads the files
rules/          one file per rule, S013 on; S001 to S012 are about client settings and come from semel.clients
judging.py      rules x facts -> findings
repair.py       the settings that would make broken rules hold
"""
