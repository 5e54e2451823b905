"""`kubectl binshift`: shows and moves the state of dataflows on Kubernetes, through the API server.

Everything is done by kubectl itself, so that the user's contexts, credentials and rights are those of every other command.
"""
