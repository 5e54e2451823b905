"""Whether binshift answers as Spark does: small streaming programs in plain PySpark, run on both engines and compared step by step.

``python -m conformance --help`` shows how to run it. Not shipped. A program never imports binshift; both engines get the same files
through Spark's file source, one file per stream and step, so that both form the same batches.
"""
