"""The solver of the program: it takes a Dual and access to K, and returns a Solution with its certificate.

It never prints, and knows neither the data nor a model's name.
"""
