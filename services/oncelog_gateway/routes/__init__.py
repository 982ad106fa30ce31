"""One module of routes for each resource. They translate HTTP into calls of the gateway's objects; no rules live
here.
"""
