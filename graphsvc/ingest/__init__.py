"""Turns repositories and folders of Markdown into context units with typed edges.

``git`` and ``markdown`` read a source; ``chunks`` and ``imports`` understand its text; ``plan`` decides, purely, which
units and edges should exist; ``writer`` compares that with what the service has and sends the difference.
"""
